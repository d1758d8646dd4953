"""Text columns as codes: of a million events, few texts differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.arrays import Codes, Column, Indices
from outpace.trace import StatColumn

_INLINE = 5  # the kind of a text that stands in the event itself, not in the plane's table of names


@dataclass(frozen=True, eq=False)
class Words:
    """`names[code[i]]` is the text of row i; code 0 is the empty text."""

    code: Codes
    names: tuple[str, ...]

    def __getitem__(self, rows: Indices) -> Words:
        return Words(self.code[rows], self.names)

    def at(self, row: int) -> str:
        """The text of one row."""
        return self.names[int(self.code[row])]

    def texts(self) -> Column:
        """The texts as an object column."""
        names = np.empty(len(self.names), dtype=object)
        names[:] = self.names
        column: Column = names[self.code]
        return column


def encode(stat: StatColumn, source: Indices, at: Indices, count: int, spell: Callable[[object], str] = str) -> Words:
    """Words of `count` rows: row `at[i]` has the text of value `source[i]`, the other rows have none.

    Today's writers refer to a table of names, so that equal texts have equal bits and each is looked up once. Up to TensorFlow 2.4 every event
    holds its own copy, which must be decoded.
    """
    codes: dict[str, int] = {"": 0}
    code = np.zeros(count, np.int64)
    kind = stat.kind[source]
    shared, copied = np.flatnonzero(kind != _INLINE), np.flatnonzero(kind == _INLINE)
    for members in alike(shared, kind[shared], stat.bits[source[shared]]):
        value = stat.value(int(source[members[0]]))
        text = "" if value is None else spell(value)
        code[at[members]] = codes.setdefault(text, len(codes))
    if len(copied):
        first, last = int(source[copied].min()), int(source[copied].max())
        texts = stat.slice(first, last + 1).texts()
        code[at[copied]] = [codes.setdefault(texts[i], len(codes)) for i in (source[copied] - first).tolist()]
    return Words(code, tuple(codes))


def alike(members: Indices, *keys: Column) -> Iterator[Indices]:
    """`members` in groups of equal keys, each group in the order of `members`."""
    if len(members):
        order = np.lexsort(keys)
        begins = np.zeros(len(order) - 1, bool)
        for key in keys:
            begins |= np.diff(key[order]) != 0
        yield from np.split(members[order], np.flatnonzero(begins) + 1)

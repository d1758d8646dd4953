# SPDX-License-Identifier: Apache-2.0
"""Text columns stored as codes: a million events have few distinct texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.arrays import Codes, Column, Indices
from outpace.trace import StatColumn

_INLINE = 5  # value kind of a text that is stored in the event, not in the plane's table of names


@dataclass(frozen=True, eq=False)
class DictionaryColumn:
    """A text column with one code per row; `names[codes[i]]` is the text of row i.

    codes: code of each row
    names: distinct texts; the first is the empty text
    """

    codes: Codes
    names: tuple[str, ...]

    def __getitem__(self, rows: Indices) -> DictionaryColumn:
        """Return the column of some rows."""
        return DictionaryColumn(self.codes[rows], self.names)

    def text_at(self, row: int) -> str:
        """Return the text of one row."""
        return self.names[int(self.codes[row])]

    def texts(self) -> Column:
        """Return the texts as an object column."""
        names = np.empty(len(self.names), dtype=object)
        names[:] = self.names
        column: Column = names[self.codes]
        return column


def encode_texts(
    stat: StatColumn, value_index: Indices, rows: Indices, count: int, format_value: Callable[[object], str] = str
) -> DictionaryColumn:
    """Return a text column of `count` rows: row `rows[i]` has the text of value `value_index[i]` of
    the stat, all other rows have the empty text.

    format_value: turns a value into text

    Current profiles refer to a table of names, so that equal texts have equal bits and each text is
    decoded once. Up to TensorFlow 2.4 every event contains its own copy, which must be decoded for
    each event.
    """
    codes: dict[str, int] = {"": 0}
    code = np.zeros(count, np.int64)
    kind = stat.kind[value_index]
    shared, copied = np.flatnonzero(kind != _INLINE), np.flatnonzero(kind == _INLINE)
    for members in group_by_keys(shared, kind[shared], stat.bits[value_index[shared]]):
        value = stat.value(int(value_index[members[0]]))
        text = "" if value is None else format_value(value)
        code[rows[members]] = codes.setdefault(text, len(codes))
    if len(copied):
        first, last = int(value_index[copied].min()), int(value_index[copied].max())
        texts = stat.slice(first, last + 1).texts()
        code[rows[copied]] = [codes.setdefault(texts[i], len(codes)) for i in (value_index[copied] - first).tolist()]
    return DictionaryColumn(code, tuple(codes))


def group_by_keys(rows: Indices, *keys: Column) -> Iterator[Indices]:
    """Yield `rows` in groups of equal keys, each group in the order of `rows`.

    keys: columns with one value per item of `rows`
    """
    if len(rows):
        order = np.lexsort(keys)
        begins = np.zeros(len(order) - 1, bool)
        for key in keys:
            begins |= np.diff(key[order]) != 0
        yield from np.split(rows[order], np.flatnonzero(begins) + 1)

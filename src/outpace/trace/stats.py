# SPDX-License-Identifier: Apache-2.0
"""Values of stats: typed columns, decoded from the raw bits that the core returns."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt

from outpace._dataclass import dataclass
from outpace.model.arrays import Codes, Ids, Indices, Mask, Numbers, Values
from outpace.trace.algorithms import find_positions
from outpace.trace.content import Content

Value = int | float | str | bytes | None

_DOUBLE, _UINT, _INT, TEXT, BYTES, _REF = 2, 3, 4, 5, 6, 7


def decode_value(kind: int, value: int, length: int, content: Content, names: tuple[str, ...]) -> Value:
    """Return one stat value as a Python object; None where it is missing or a dangling
    reference.
    """
    if kind == _DOUBLE:
        number: float = struct.unpack("<d", struct.pack("<Q", value))[0]
        return number
    if kind == _INT:
        return value - (1 << 64) if value >> 63 else value
    if kind == TEXT:
        return content.text_at(value, length)
    if kind == BYTES:
        return content.bytes_at(value, length)
    if kind == _REF:
        return names[value] if value < len(names) else None
    return value if kind == _UINT else None


def _as_text(value: Value) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


@dataclass(frozen=True, eq=False)
class StatColumn:
    """All values of one event stat, sorted by event row; an event has at most one value.

    name: of the stat.
    rows: event rows, int32.
    kind, bits, length: the core's raw columns; `bits` is uint32 where all values fit, else uint64.
    """

    name: str
    rows: Indices
    kind: Codes = field(repr=False)
    bits: Ids | npt.NDArray[np.uint32] = field(repr=False)
    length: npt.NDArray[np.uint32] = field(repr=False)
    _content: Content = field(repr=False)
    _names: tuple[str, ...] = field(repr=False)

    @classmethod
    def from_values(cls, name: str, rows: Sequence[int], values: Sequence[Value]) -> StatColumn:
        """Return a column of Python values (numbers, texts, bytes) for event rows, which are sorted
        and distinct.
        """
        texts: dict[str, int] = {}
        content = bytearray()
        cells = []  # kind, bits, length
        for value in values:
            if isinstance(value, str):
                cells.append((_REF, texts.setdefault(value, len(texts)), 0))
            elif isinstance(value, bytes):
                cells.append((BYTES, len(content), len(value)))
                content += value
            elif isinstance(value, float):
                cells.append((_DOUBLE, struct.unpack("<Q", struct.pack("<d", value))[0], 0))
            else:
                cells.append((_INT, int(value or 0) & (1 << 64) - 1, 0))
        kind, bits, length = (
            np.array([cell[at] for cell in cells], dtype) for at, dtype in enumerate((np.uint8, np.uint64, np.uint32))
        )
        return cls(
            name,
            np.array(rows, np.int32),
            kind,
            bits,
            length,
            Content.from_bytes(np.frombuffer(bytes(content), np.uint8)),
            tuple(texts),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, low: int, high: int) -> StatColumn:
        """Return the column of the values at positions [low, high)."""
        part = slice(low, high)
        return StatColumn(
            self.name, self.rows[part], self.kind[part], self.bits[part], self.length[part], self._content, self._names
        )

    def replace_texts(self, rows: Indices, texts: Sequence[str]) -> StatColumn:
        """Return the column with the texts of some event rows replaced."""
        code_by_text = {text: len(self._names) + i for i, text in enumerate(dict.fromkeys(texts))}
        kind, bits, at = self.kind.copy(), self.uints.copy(), np.searchsorted(self.rows, rows)
        kind[at], bits[at] = _REF, [code_by_text[text] for text in texts]
        return StatColumn(self.name, self.rows, kind, bits, self.length, self._content, (*self._names, *code_by_text))

    @property
    def ints(self) -> Numbers:
        """Values as int64. Unsigned values from 2^63 on wrap, which keeps ids distinct and
        comparable.
        """
        return self.uints.view(np.int64)

    @property
    def uints(self) -> Ids:
        """Values as uint64, the type of ids."""
        return self.bits.astype(np.uint64, copy=False)

    def floats(self) -> Values:
        """Return the values as float64, whatever number type the file stores."""
        as_double = self.uints.view(np.float64)
        return np.where(self.kind == _DOUBLE, as_double, np.where(self.kind == _INT, self.ints, self.uints))

    def value(self, index: int) -> Value:
        """Return the value at position `index` as a Python object."""
        return decode_value(int(self.kind[index]), int(self.bits[index]), int(self.length[index]), self._content, self._names)

    def texts(self) -> list[str]:
        """Return the values as texts, decoded one by one."""
        cells = zip(self.kind.tolist(), self.bits.tolist(), self.length.tolist(), strict=True)
        return [_as_text(decode_value(*cell, self._content, self._names)) for cell in cells]

    def encode_texts(self, positions: Indices) -> tuple[Codes, list[str]]:
        """Return (code of each value, distinct texts) of the values at `positions`.

        The codes are int64 indices into the texts, which have no special order. Interned texts are
        compared by reference and decoded once; inline texts are decoded once per place in the file.
        """
        if len(positions) == 0:
            return np.zeros(0, np.int64), []
        keys = (self.length[positions], self.bits[positions], self.kind[positions])
        order = np.lexsort(keys)
        new = np.zeros(len(positions), bool)
        new[0] = True
        for key in keys:
            new[1:] |= key[order][1:] != key[order][:-1]
        code_by_text: dict[str, int] = {}
        values = [_as_text(self.value(place)) for place in positions[order[new]].tolist()]
        indices = [code_by_text.setdefault(value, len(code_by_text)) for value in values]
        codes = np.empty(len(positions), np.int64)
        codes[order] = np.array(indices, np.int64)[np.cumsum(new) - 1]
        return codes, list(code_by_text)

    def take_ints(self, rows: Indices, missing: int = -1) -> Numbers:
        """Return the values of these events as int64, `missing` where an event lacks the stat."""
        place = np.searchsorted(self.rows, rows, side="right") - 1
        indices = np.flatnonzero(place >= 0)
        indices = indices[self.rows[place[indices]] == rows[indices]]
        values = np.full(len(rows), missing, np.int64)
        values[indices] = self.ints[place[indices]]
        return values

    def has_rows(self, rows: Indices) -> Mask:
        """Return a boolean per event: whether it has the stat."""
        return find_positions(self.rows, rows) >= 0


def compact_columns(columns: Mapping[str, StatColumn]) -> dict[str, StatColumn]:
    """Return the columns in less memory: 32 bits per value where all values fit, and one shared
    array of rows for stats of the same events.
    """
    row_arrays: list[Indices] = []
    compact = {}
    for name, column in columns.items():
        row = next((rows for rows in row_arrays if np.array_equal(rows, column.rows)), None)
        if row is None:
            row_arrays.append(row := column.rows.copy())
        narrow = len(column) == 0 or int(column.bits.max()) >> 32 == 0
        bits = column.bits.astype(np.uint32) if narrow else column.bits.copy()
        compact[name] = replace(column, rows=row, bits=bits)
    return compact

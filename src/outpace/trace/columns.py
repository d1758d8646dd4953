# SPDX-License-Identifier: Apache-2.0
"""Columns of events that return the values of requested rows: computed on access, or stored in
little memory.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from outpace import _native
from outpace.model.arrays import Codes, Column, Indices, Numbers, Picoseconds

Side: TypeAlias = Literal["left", "right"]
MIN_PACKED_ROWS = 1 << 23
"""Number of rows from which columns are packed. Smaller columns are stored unpacked, which is
faster: with fewer events, all columns together take some hundred megabytes.
"""
_WIDTHS = (1, 2, 4)  # possible sizes of a packed entry, bytes
_BLOCK = 256  # number of entries that share a base
# Cost of a number that does not fit into a packed entry, in bytes: it takes 16, and time whenever
# it is looked up
_ASIDE = 256

IMPOSSIBLE_PS = 1 << 56
"""Limit of the absolute value of plausible times, ps: 20 hours."""


class EventColumn(ABC):
    """Column of events that returns the values of requested rows, because no table needs the whole
    column at once.
    """

    __iter__ = None  # iteration is disabled: access row by row takes a hundred times as long

    @overload
    def __getitem__(self, rows: int) -> np.int64: ...

    @overload
    def __getitem__(self, rows: Indices | slice) -> npt.NDArray[np.int64]: ...

    def __getitem__(self, rows: int | Indices | slice) -> Any:
        return self._take(rows)

    @abstractmethod
    def _take(self, rows: Any) -> Any: ...


class ComputedColumn(EventColumn):
    """Column that is computed on access."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute = compute

    def _take(self, rows: Any) -> Any:
        return self._compute(rows)


class StoredColumn(EventColumn):
    """Read-only column of whole numbers, int32 or int64, in memory."""

    @abstractmethod
    def searchsorted(self, block: slice, targets: Picoseconds, side: Side = "left") -> Indices:
        """Return the rows of the trace found by `np.searchsorted` within `block`, where the column
        is sorted.
        """


def store_column(values: Codes | Numbers) -> StoredColumn:
    """Store numbers as a read-only column; long columns are packed where that saves memory."""
    return (_pack(values) if len(values) >= MIN_PACKED_ROWS else None) or _Plain(values)


class _Plain(StoredColumn):
    def __init__(self, values: Codes | Numbers) -> None:
        self._values = values
        values.setflags(write=False)

    def _take(self, rows: Any) -> Any:
        return self._values[rows]

    def searchsorted(self, block: slice, targets: Picoseconds, side: Side = "left") -> Indices:
        return np.asarray(np.searchsorted(self._values[block], targets, side) + block.start)


def _pack(values: Codes | Numbers) -> StoredColumn | None:
    """Return the packed column; None where packing saves no memory."""
    count = len(values)
    base, unit = np.empty(-(-count // _BLOCK), np.int64), ctypes.c_int64()
    asides = np.empty(len(_WIDTHS), np.uint64)
    _native.call("ox_pack_plan", count, values, values.itemsize, _native.thread_count(), base, unit, asides)
    sizes = [width * count + _ASIDE * many for width, many in zip(_WIDTHS, asides.tolist(), strict=True)]
    if min(sizes) >= values.nbytes:
        return None
    width = _WIDTHS[sizes.index(min(sizes))]
    small = np.empty(count, f"u{width}")
    _native.call("ox_pack", count, values, values.itemsize, _native.thread_count(), base, unit.value, width, small)
    aside = np.flatnonzero(small == np.iinfo(small.dtype).max)
    return _Packed(values.dtype, unit.value, small, base, aside, values[aside].astype(np.int64))


class _Packed(StoredColumn):
    """Packed column (see `ox_packed`). Access returns copies."""

    def __init__(
        self, dtype: np.dtype[Any], unit: int, small: Column, base: Numbers, aside_row: Indices, aside: Numbers
    ) -> None:
        self._dtype, self._columns = dtype, (small, base, aside_row, aside)
        pointers = (_native.pointer(column) for column in self._columns)
        self._core = _native.PackedStruct(len(small), len(aside), unit, *pointers, small.itemsize)

    def _take(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            begin, end, step = rows.indices(self._core.count)
            if step == 1:
                return self._unpack(max(end - begin, 0), None, 0, begin)
            rows = np.arange(begin, end, step)
        indices = np.asarray(rows)
        if indices.dtype.kind not in "iu":
            raise IndexError("rows are whole numbers")
        if indices.dtype not in (np.int32, np.int64):
            indices = indices.astype(np.int64)
        values = self._unpack(indices.size, np.ascontiguousarray(indices), indices.itemsize, 0).reshape(indices.shape)
        return values if indices.ndim else values[()]

    def _unpack(self, count: int, rows: Indices | None, width: int, begin: int) -> Column:
        values = np.empty(count, self._dtype)
        try:
            _native.call("ox_unpack", self._core, count, rows, width, begin, values, values.itemsize)
        except RuntimeError:
            raise IndexError(f"a row that is none of {self._core.count}") from None
        return values

    def searchsorted(self, block: slice, targets: Picoseconds, side: Side = "left") -> Indices:
        positions, values = np.empty(len(targets), np.int64), np.ascontiguousarray(targets, np.int64)
        _native.call("ox_search", self._core, block.start, block.stop, len(targets), values, side == "right", positions)
        return positions

# SPDX-License-Identifier: Apache-2.0
"""Writing of a trace file for a viewer: tracks, events of lines, computed slices, counters. The
native core writes the bytes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import TracebackType
from typing import Any

import numpy as np

from outpace import _native
from outpace._dataclass import dataclass
from outpace.model.arrays import Bytes, Codes, Column, Ids, Indices, Mask, Numbers, Picoseconds

NO_CATEGORY = (1 << 32) - 1
_DOUBLE, _INT, _TEXT = 2, 4, 5


class ExportFormat(IntEnum):
    """File formats that the core writes."""

    PERFETTO = 1
    JSON = 2


class TrackKind(IntEnum):
    """Kind of a track: a section, a row of slices, or a counter (bytes or plain)."""

    SECTION = 1
    SLICES = 2
    BYTES = 3
    COUNTER = 4


@dataclass(frozen=True, eq=False)
class Flows:
    """Flow arrows between events of one host, sorted by event row.

    rows: event row of each end of an arrow.
    id: uint64, one number per arrow.
    is_end: 1 where the arrow ends at the event, 0 where it begins.
    """

    rows: Indices
    id: Ids
    is_end: Codes

    @classmethod
    def from_pairs(cls, cause: Indices, effect: Indices, first_id: int = 1) -> Flows:
        """Return an arrow from each event row of `cause` to the event row at the same position of
        `effect`.
        """
        row = np.concatenate((cause, effect)).astype(np.int32)
        identity = np.tile(np.arange(first_id, first_id + len(cause), dtype=np.uint64), 2)
        ends = np.repeat(np.array([0, 1], np.uint8), len(cause))
        order = np.argsort(row, kind="stable")
        return cls(row[order], identity[order], ends[order])


NO_FLOWS = Flows(np.zeros(0, np.int32), np.zeros(0, np.uint64), np.zeros(0, np.uint8))


@dataclass(frozen=True, eq=False)
class Slices:
    """Selection of a trace's events for one track.

    track: number of the track.
    line: line whose events are written.
    shift_ns: added to their times.
    mask: boolean over all events of the trace; None selects all events of the line.
    argument_mask: boolean over `trace.stat_names` of the stats to write; None writes none.
    flows: arrows of these events.
    """

    track: int
    line: int
    shift_ns: int = 0
    mask: Mask | None = None
    argument_mask: Mask | None = None
    flows: Flows = NO_FLOWS

    @staticmethod
    def to_flags(chosen: Mask | None, rows: slice = slice(None)) -> Bytes | None:
        """Return a boolean mask, or some rows of it, as the bytes that the core reads."""
        return None if chosen is None else np.ascontiguousarray(chosen[rows], np.uint8)


@dataclass(frozen=True, eq=False)
class ComputedSlices:
    """Slices that are not events of the file.

    start, duration: int64 ps.
    names: one per slice.
    arguments: columns of ints, floats or texts, one value per slice.
    category: of all slices.
    """

    start: Picoseconds
    duration: Picoseconds
    names: Sequence[str]
    arguments: Mapping[str, Sequence[Any] | Column]
    category: str = ""


class TraceWriter:
    """Writer of a trace file to an open file descriptor, which stays open. Use it as a context
    manager.

    Leaving the block finishes the file, and raises the OSError of the first write that failed.
    """

    def __init__(self, file: int, file_format: ExportFormat) -> None:
        out = ctypes.c_uint64()
        _native.call("ox_export_open", file, file_format, out)
        self._out: int = out.value
        self._tracks = 0

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        number = ctypes.c_int32()
        try:
            _native.call("ox_export_finish", self._out, number)
        finally:
            _native.free_handle("ox_export_close", self._out)
            self._out = 0
        if number.value != 0 and error is None:
            raise OSError(number.value, os.strerror(number.value))

    def add_track(self, name: str, kind: TrackKind, *, parent: int = 0, rank: int = 0, description: str = "") -> int:
        """Add a track below the track `parent` (0: none) and return its number. Siblings are
        ordered by `rank`.
        """
        self._tracks += 1
        title, more = (text.encode("utf-8", "replace") for text in (name, description))
        _native.call("ox_export_track", self._out, self._tracks, parent, kind, rank, title, len(title), more, len(more))
        return self._tracks

    def write_slices(self, track: int, slices: ComputedSlices, *, shift_ns: int = 0) -> int:
        """Write computed slices and return their number. They may overlap and be in any order."""
        order = np.lexsort((-slices.duration, slices.start))
        texts = _Texts()
        start, duration = (np.ascontiguousarray(column[order], np.int64) for column in (slices.start, slices.duration))
        name = np.array([texts.number(n) for n in slices.names], np.uint32)[order]
        keys = np.array([texts.number(n) for n in slices.arguments], np.uint32)
        columns = [_column(values, texts) for values in slices.arguments.values()]
        kinds = np.array([kind for kind, _ in columns], np.uint8)
        values = np.concatenate([np.zeros(0, np.uint64), *(bits[order] for _, bits in columns)])
        category = texts.number(slices.category) if slices.category else NO_CATEGORY
        text, text_at = texts.joined()
        arrays: tuple[Column, ...] = (start, duration, name, keys, kinds, values, text, text_at)
        sizes = (len(order), len(kinds), len(text_at) - 1, track)
        job = _native.MadeSlicesStruct(*sizes, *map(_native.pointer, arrays), category, shift_ns)
        return self.write_job("ox_export_made", job)

    def write_counter(self, track: int, times: Picoseconds, value: Numbers, *, shift_ns: int = 0) -> None:
        """Write the integer values of a counter at sorted times (ps)."""
        columns = [np.ascontiguousarray(column, np.int64) for column in (times, value)]
        _native.call("ox_export_counter", self._out, track, len(times), *columns, shift_ns)

    def write_job(self, function: str, job: ctypes.Structure) -> int:
        """Call a core function that writes slices; return the number of slices written."""
        written = ctypes.c_uint64()
        _native.call(function, self._out, job, written)
        return written.value


class _Texts:
    """Numbering of distinct texts."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._number.setdefault(text, len(self._number))

    def joined(self) -> tuple[Bytes, Ids]:
        """Return all texts as UTF-8 bytes, and the offset of each."""
        parts = [text.encode("utf-8", "replace") for text in self._number]
        at = np.cumsum([0, *map(len, parts)]).astype(np.uint64)
        return np.frombuffer(b"".join(parts) or b"\0", np.uint8), at


def _column(values: Sequence[Any] | Column, texts: _Texts) -> tuple[int, Ids]:
    """Return (kind, bits) of an argument column."""
    if len(values) and isinstance(values[0], str):
        return _TEXT, np.array([texts.number(value) for value in values], np.uint64)
    column = np.asarray(values)
    if column.dtype.kind == "f":
        return _DOUBLE, column.astype(np.float64).view(np.uint64)
    return _INT, column.astype(np.int64).view(np.uint64)

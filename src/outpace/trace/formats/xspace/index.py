# SPDX-License-Identifier: Apache-2.0
"""The core's index over the bytes of an XSpace: access to its tables, events and stats, and export
of its events.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from outpace import _native
from outpace.model import ProfileError
from outpace.model.arrays import Codes, Column, Ids, Numbers, Picoseconds
from outpace.model.input_files import allocated_size
from outpace.model.units import format_count
from outpace.trace.content import Content
from outpace.trace.export import Slices, TraceWriter
from outpace.trace.limits import Window
from outpace.trace.source import BytesTransform
from outpace.trace.stats import BYTES, TEXT, StatColumn
from outpace.trace.trace import Trace

_Whole = TypeVar("_Whole", bound=np.integer[Any])
# Memory budget of the index in bytes: a constant, plus this per byte of the file. Profiles need 2
# to 10 per byte, those of a few events more
_BUDGET, _BUDGET_PER_BYTE = 128 << 20, 32
READ_BLOCK_BYTES = 0
"""Bytes of a file that a pass reads at a time; 0 for the default. The value does not change
results, which tests verify.
"""


class XSpaceIndex:
    """Owner of the core's index over the bytes of one profile, and the source of its trace. It
    keeps the bytes alive and frees the index.

    has_window: whether `apply_window` will be called.
    """

    stat_names: tuple[str, ...] = ()
    # For each stat name, the row of the first equal name in its plane
    _first: Codes = np.zeros(0, np.int32)

    def __init__(self, data: Content, source: str, has_window: bool = False) -> None:
        self.data = data
        size = len(data) if data.memory is not None else min(len(data), allocated_size(data.descriptor))
        space, budget = ctypes.c_uint64(), _BUDGET + _BUDGET_PER_BYTE * size
        memory = None if data.memory is None else _native.pointer(data.memory)
        try:
            _native.call(
                "ox_open",
                _native.SourceStruct(memory, len(data), data.descriptor, READ_BLOCK_BYTES),
                has_window,
                budget,
                _native.thread_count(),
                space,
            )
        except OverflowError:
            raise ProfileError(
                f"{source} is damaged, or made to fill the memory: what its {format_count(size, 'byte')} claim to hold (planes, lines, names, "
                f"events) would take more than {budget >> 20:,} MiB. Copy it again, or capture again."
            ) from None
        self.address: int = space.value
        self.sizes = _native.SizesStruct()
        _native.call("ox_get_sizes", self.address, self.sizes)
        data.require_unchanged()

    def read_table(self, name: str, *types: type[np.generic], more: tuple[Column, ...] = ()) -> tuple[np.ndarray, ...]:
        """Return the columns that the core function `ox_<name>(space, columns..., more...)` fills,
        one per dtype of `types`.
        """
        columns = tuple(np.empty(getattr(self.sizes, name), dtype) for dtype in types)
        _native.call(f"ox_{name}", self.address, *columns, *more)
        return columns

    def span_ps(self) -> tuple[int, int]:
        """Return (first start, last end) of all counted events, ps."""
        return self._narrow(Window(), 0)

    def apply_window(self, window: Window, earliest_ps: int) -> None:
        """Count only the events of a window from now on, where the earliest event of the profile
        starts at `earliest_ps`.
        """
        self._narrow(window, earliest_ps)

    def _narrow(self, window: Window, earliest: int) -> tuple[int, int]:
        first, last = ctypes.c_int64(), ctypes.c_int64()
        _native.call(
            "ox_window", self.address, *window.bounds(earliest), window.include_overlapping, _native.thread_count(), first, last
        )
        _native.call("ox_get_sizes", self.address, self.sizes)
        self.data.require_unchanged()
        return first.value, last.value

    def merge_stat_names(self) -> None:
        """Read the names of all stats; call it before `read_events`. Equal names of one plane are
        one stat from now on.
        """
        self._read_stat_names()
        if (self._first != np.arange(len(self._first))).any():
            _native.call("ox_merge_stat_names", self.address, self._first)

    def _read_stat_names(self) -> None:
        plane, _, at, length = self.read_table("stat_names", np.uint32, np.int64, np.uint64, np.uint32)
        self.stat_names = tuple(self.data.texts_at(at, length))
        first_by_name: dict[tuple[int, str], int] = {}
        named = enumerate(zip(plane.tolist(), self.stat_names, strict=True))
        self._first = np.array([first_by_name.setdefault(name, row) for row, name in named], np.int32)

    def count_repeated_stats(self) -> Numbers:
        """Return, per stat name, the number of ignored values, whose event has an earlier value of
        the stat. Call it after `read_events`.
        """
        counts = np.zeros(self.sizes.stat_names, np.uint64)
        _native.call("ox_repeated", self.address, counts)
        return counts.astype(np.int64)

    def read_events(self) -> tuple[Codes, Picoseconds, Picoseconds]:
        """Decode all events; return (name, start, duration): int32, int64 ps, int64 ps."""
        count = self.sizes.events
        name = np.empty(count, np.int32)
        start, duration = np.empty(count, np.int64), np.empty(count, np.int64)
        _native.call("ox_events", self.address, _native.thread_count(), name, start, duration)
        _native.call("ox_get_sizes", self.address, self.sizes)
        self.data.require_unchanged()
        return name, start, duration

    def read_stats(self, names: Sequence[str]) -> dict[str, StatColumn]:
        """Return the named stats: see `TraceSource`."""
        place = {name: i for i, name in enumerate(names)}
        column_of = np.fromiter((place.get(n, -1) for n in self.stat_names), np.int32, len(self.stat_names))
        column_of[self._first != np.arange(len(column_of))] = -1  # no effect unless stand-ins made names equal
        first, (row, kind, bits, length) = self._decode(column_of, len(names))
        parts = zip(names, (slice(*bounds) for bounds in pairwise(first.tolist())), strict=True)
        return {
            name: StatColumn(
                name, row[part], _compact(kind[part]), bits[part], _compact(length[part]), self.data, self.stat_names
            )
            for name, part in parts
        }

    def write_line(self, out: TraceWriter, trace: Trace, slices: Slices) -> int:
        """Write events of a line, whose arguments the core reads from the file: see
        `TraceSource`.
        """
        rows = trace.lines.row_slice(slices.line)
        events = (trace.name[rows], trace.start[rows], trace.duration[rows])
        columns = (*events, slices.to_flags(slices.mask, rows), slices.to_flags(slices.argument_mask))
        pointers = [None if column is None else _native.pointer(column) for column in columns]
        arrows = slices.flows
        ends = [_native.pointer(column) for column in (arrows.rows, arrows.id, arrows.is_end)]
        job = _native.LineSlicesStruct(
            self.address, *pointers, slices.shift_ns, slices.line, slices.track, len(arrows.rows), *ends
        )
        written = out.write_job("ox_export_line", job)
        self.data.require_unchanged()
        return written

    def rewrite(self, text: BytesTransform, blob: BytesTransform) -> None:
        """Replace texts and byte values: see `TraceSource`. The bytes are changed in memory, and
        the core reads from there afterwards.
        """
        memory = self.data.load_all()
        _native.call("ox_hold", self.address, memory)
        memory.setflags(write=True)
        for offset, size, kind in self._texts():
            part = memory[offset : offset + size]
            part[:] = np.frombuffer((blob if kind == BYTES else text)(part.tobytes()), np.uint8)
        memory.setflags(write=False)
        self._read_stat_names()

    def _names(self, name: str, *before: type[np.generic], more: tuple[Column, ...] = ()) -> tuple[Column, Column]:
        """Return offsets and lengths of a table's texts, the columns that follow `before`."""
        at, length = self.read_table(name, *before, np.uint64, np.uint32, more=more)[len(before) :]
        return at, length

    def _texts(self) -> Iterator[tuple[int, int, int]]:
        """Yield (offset, length, kind) of every text and every value of bytes, each place once."""
        number, place = np.uint32, (np.uint64, np.uint32)
        first_event = np.empty(self.sizes.lines + 1, np.uint64)
        *_, shown_at, shown_size = self.read_table("event_names", number, np.int64, *place, *place)
        named = (
            self._names("planes", np.int64, more=(np.empty(self.sizes.planes, number),)),
            self._names("lines", number, np.int64, np.int64, more=(first_event,)),
            self._names("event_names", number, np.int64, more=(shown_at, shown_size)),
            self._names("stat_names", number, np.int64),
            self._names("strings", np.uint8),
            (shown_at, shown_size),
        )
        places = [(np.full(len(at), TEXT, np.uint8), at, size) for at, size in named]
        kind, at, size = self.read_table("owner_stats", number, np.int32, np.int32, np.uint8, *place)[3:]
        places.append((kind, at, size))
        for name in range(len(self.stat_names)):  # one stat at a time: all stats together take several times the file's size
            only = np.full(len(self.stat_names), -1, np.int32)
            only[name] = 0
            _, (_, kind, at, size) = self._decode(only, 1)
            places.append((kind, at, size))
        texts = np.concatenate(
            [np.stack([column.astype(np.int64) for column in (at, size, kind)], 1) for kind, at, size in places]
        )
        yield from np.unique(texts[np.isin(texts[:, 2], (TEXT, BYTES)) & (texts[:, 1] > 0)], axis=0).tolist()

    def _decode(self, column_of: Codes, columns: int) -> tuple[Ids, tuple[Column, ...]]:
        """Return the bounds of each column, and (row, kind, value bits, length) of all stats that
        belong to a column.
        """
        first = np.zeros(columns + 1, np.uint64)
        _native.call("ox_stat_bounds", self.address, column_of, columns, first)
        out = tuple(np.empty(int(first[-1]), dtype) for dtype in (np.int32, np.uint8, np.uint64, np.uint32))
        _native.call("ox_stats", self.address, column_of, columns, _native.thread_count(), *out)
        self.data.require_unchanged()
        return first, out

    def __del__(self) -> None:
        address = self.__dict__.pop("address", 0)
        if address:
            _native.free_handle("ox_close", address)


def _compact(column: npt.NDArray[_Whole]) -> npt.NDArray[_Whole]:
    """Return a broadcast single value where all are equal, else a copy: a stat mostly has values of
    one kind, and numbers have no length.
    """
    value = column[:1].copy()
    return np.broadcast_to(value, column.shape) if (column == value).all() else column.copy()

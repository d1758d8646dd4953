# SPDX-License-Identifier: Apache-2.0
"""`Trace`: the events of one host's profile as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from outpace import _native
from outpace._caching import ResultCache, once
from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.model.arrays import Codes, Indices, Mask, Numbers, Picoseconds
from outpace.trace.algorithms import find_slice, take_codes
from outpace.trace.columns import ComputedColumn, EventColumn, StoredColumn, store_column
from outpace.trace.limits import Window
from outpace.trace.source import BytesTransform, TraceSource
from outpace.trace.stats import StatColumn, Value, compact_columns

if TYPE_CHECKING:
    from outpace.trace.export import Slices, TraceWriter

BLOCK_EVENTS = 1 << 18
"""Minimum number of events that are processed together in passes over all events."""
_POOL = compile_lazily(r"(.+)/-?\d{10,}")  # thread name with a number longer than any system's thread id


@dataclass(frozen=True)
class Plane:
    """One plane: the host, a device, or metadata.

    index, id, name: its position in the trace, and its id and name in the file.
    lines: its rows of `Trace.lines`.
    stats: stats of the plane itself.
    """

    index: int
    id: int
    name: str
    lines: range
    stats: dict[str, Value]


@dataclass(frozen=True, eq=False)
class LineTable:
    """Lines (threads and streams) of a trace, one row per line.

    plane: index of the line's plane.
    id, timestamp_ns: as in the file.
    first_event: row of the line's first event, with one more entry at the end: the events of line i
        are the rows `first_event[i]:first_event[i + 1]`.
    names: names of the lines.
    """

    plane: Codes
    id: Numbers
    timestamp_ns: Numbers
    first_event: Indices
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def row_slice(self, line: int) -> slice:
        """Return the event rows of one line as a slice."""
        return slice(int(self.first_event[line]), int(self.first_event[line + 1]))

    def row_numbers(self, line: int) -> Indices:
        """Return the event rows of one line as an array."""
        return np.arange(self.first_event[line], self.first_event[line + 1])

    def iter_blocks(self) -> Iterator[slice]:
        """Yield slices of event rows of whole lines, in order, with at least `BLOCK_EVENTS` events
        each but for the last. Passes over all events work on one block at a time.
        """
        begin, last = 0, int(self.first_event[-1])
        for end in self.first_event[1:].tolist():
            if end > begin and (end - begin >= BLOCK_EVENTS or end == last):
                yield slice(begin, end)
                begin = end

    @once
    def titles(self) -> tuple[str, ...]:
        """Names of the lines for a reader. Threads of a pool whose names end in an address are
        numbered instead: `tf_Compute 3`.
        """
        numbers: dict[tuple[int, str], int] = {}
        titles = []
        for plane, name in zip(self.plane.tolist(), self.names, strict=True):
            pool = _POOL.fullmatch(name)
            if pool is not None:
                number = numbers[plane, pool[1]] = numbers.get((plane, pool[1]), 0) + 1
                name = f"{pool[1]} {number}"
            titles.append(name)
        return tuple(titles)


@dataclass(frozen=True)
class Damage:
    """Something in the file that could not be read.

    description: what is damaged.
    offset, size: in bytes of the uncompressed file; `offset` is None where the damage has no single
        place, such as impossible values.
    plane: name of the plane.
    """

    description: str
    offset: int | None
    size: int
    plane: str


@dataclass(frozen=True, eq=False)
class Trace:
    """The events of one host as columns, sorted by (line, start, longer first).

    host, source, size: name of the host, path of the file, and its uncompressed size in bytes.
    name: row in `names`, int32.
    start, duration: int64 ps; start is counted from `origin_ns` (ns, as the file writes it). These
        columns return values of rows (`start[row_slice]`); large ones are compressed in memory.
    display_names, name_plane, name_stats: display name, plane and stats of event names, by row of
        `names`.
    occurrences: maps the row of an aggregated event to the number of events it stands for.
    is_truncated: whether the end of the file, or of a message in it, is missing.
    unnamed_stats: number of stats whose name was lost in damage.
    window: the requested part of the time; the trace then has only its events.
    earliest_ps: with a window, the start of the earliest event of the whole profile, ps.

    Columns are read-only; stats are decoded on first access.
    """

    host: str
    source: str
    size: int
    planes: tuple[Plane, ...]
    lines: LineTable
    name: StoredColumn
    start: StoredColumn
    duration: StoredColumn
    names: tuple[str, ...]
    display_names: dict[int, str]
    name_plane: Codes
    name_stats: dict[int, dict[str, Value]]
    stat_names: tuple[str, ...]
    origin_ns: int
    occurrences: dict[int, int]
    hostnames: tuple[str, ...]
    messages: tuple[str, ...]
    damages: tuple[Damage, ...]
    _source: TraceSource = field(repr=False)
    is_truncated: bool = False
    unnamed_stats: int = 0
    window: Window | None = None
    earliest_ps: int | None = None
    _stats: dict[str, StatColumn] = field(default_factory=dict, repr=False)
    cache: ResultCache = field(default_factory=ResultCache, init=False, repr=False)
    _loading: Lock = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        for column in (self.name_plane, self.lines.plane, self.lines.id, self.lines.timestamp_ns, self.lines.first_event):
            column.setflags(write=False)

    def __len__(self) -> int:
        return int(self.lines.first_event[-1])

    @property
    def end(self) -> EventColumn:
        """End of events, ps: `end[rows]`."""
        return ComputedColumn(lambda rows: self.start[rows] + self.duration[rows])

    @property
    def line(self) -> EventColumn:
        """Line of events: `line[rows]`."""
        return ComputedColumn(lambda rows: np.searchsorted(self.lines.first_event, rows, side="right") - 1)

    @once
    def parent(self) -> EventColumn:
        """Row of the innermost event that contains an event on its line, -1 for none:
        `parent[rows]`.
        """
        above = np.zeros(len(self), np.int32)  # distance to the parent's row: mostly small, so that it is compressed well
        for block, bounds in self._nested_blocks():
            parents = _native.compute_parents(bounds, self.start[block], self.duration[block])
            np.subtract(np.arange(len(parents), dtype=np.int32), parents, out=above[block], where=parents >= 0)
        up, count = store_column(above), len(self)

        def compute(rows: Any) -> Any:
            indices = np.arange(*rows.indices(count)) if isinstance(rows, slice) else rows
            more = up[rows]
            return np.where(more > 0, indices - more, -1)[()]

        return ComputedColumn(compute)

    def compute_subtree_ends(self, rows: Indices) -> Indices:
        """Return one past the last row below each event of `rows` (sorted), int32. Nothing is
        cached, because that would take 4 bytes per event.
        """
        subtree_ends = np.empty(len(rows), np.int32)
        for block, bounds in self._nested_blocks():
            part = find_slice(rows, block)
            if part.start < part.stop:
                ends = _native.compute_subtree_ends(bounds, self.start[block], self.duration[block])
                subtree_ends[part] = ends[rows[part] - block.start] + block.start
        return subtree_ends

    def compute_masked_subtree_ends(self, mask: Mask | None = None) -> Indices:
        """Return one past the last row below each event of the trace, int32, counting only the
        events of `mask` (all by default).
        """
        subtree_ends = np.empty(len(self), np.int32)
        for block, bounds in self._nested_blocks():
            part = None if mask is None else mask[block]
            np.add(
                _native.compute_subtree_ends(bounds, self.start[block], self.duration[block], part),
                block.start,
                out=subtree_ends[block],
            )
        return subtree_ends

    def _nested_blocks(self) -> Iterator[tuple[slice, Indices]]:
        """Yield blocks of whole lines, each with the bounds of its lines, relative to the block."""
        bounds = self.lines.first_event
        for block in self.lines.iter_blocks():
            lines = bounds[np.searchsorted(bounds, block.start) : np.searchsorted(bounds, block.stop, side="right")]
            yield block, lines - block.start

    def compute_nesting(self, rows: Indices) -> tuple[Indices, Picoseconds]:
        """Return (row of the parent or -1, self time in ps) of the events of `rows` (sorted), as if
        the trace had no other events.
        """
        bounds = np.searchsorted(rows, self.lines.first_event)
        place, self_ps = _native.compute_nesting(bounds, self.start[rows], self.duration[rows])
        return np.where(place >= 0, rows[place], -1) if len(rows) else place, self_ps

    def find_outermost(self, rows: Indices) -> Indices:
        """Return the events of `rows` (sorted) that are nested in no other one on their line."""
        return np.asarray(rows[self.compute_nesting(rows)[0] < 0])

    def compute_mask(self, predicate: Callable[[Picoseconds, Picoseconds], Mask]) -> Mask:
        """Return a boolean per event of the trace. `predicate` is called with starts and durations
        of one block of events at a time.
        """
        mask = np.empty(len(self), bool)
        for begin in range(0, len(self), BLOCK_EVENTS):
            block = slice(begin, min(begin + BLOCK_EVENTS, len(self)))
            mask[block] = predicate(self.start[block], self.duration[block])
        return mask

    @once
    def span_ps(self) -> tuple[int, int]:
        """(first start, last end) of all events, ps; (0, 0) without events."""
        if not len(self):
            return 0, 0
        bounds = self.lines.first_event
        begins = self.start[bounds[:-1][np.diff(bounds) > 0]]  # events of a line are sorted by start
        return int(begins.min()), max(int(self.end[at : at + BLOCK_EVENTS].max()) for at in range(0, len(self), BLOCK_EVENTS))

    @once
    def unnamed_events(self) -> int:
        """Number of events whose name is lost. The file stores names after the events, so that a
        truncated file lacks names first.
        """
        return len(self.find_rows_by_mask(np.arange(len(self.names)) == len(self.names) - 1))

    @property
    def is_partial(self) -> bool:
        """Whether the lost data may decide which events are steps and what they did: the end of the
        file, with names and perhaps other planes, or names that damage destroyed.
        """
        return self.is_truncated or (bool(self.damages) and self.unnamed_events + self.unnamed_stats > 0)

    def find_plane(self, name: str) -> Plane | None:
        """Return the first plane called `name`; None where there is none."""
        return next((p for p in self.planes if p.name == name), None)

    def find_planes(self, prefix: str) -> tuple[Plane, ...]:
        """Return the planes whose name starts with `prefix`, in file order."""
        return tuple(p for p in self.planes if p.name.startswith(prefix))

    def rows_of(self, plane: Plane) -> slice:
        """Return the event rows of one plane, which are contiguous."""
        bounds = self.lines.first_event
        return slice(int(bounds[plane.lines.start]), int(bounds[plane.lines.stop]))

    def find_rows_by_name(self, predicate: Any) -> Indices:
        """Return the rows of the events whose name satisfies `predicate`, which is called once per
        distinct name (str).
        """
        return self.find_rows_by_mask(np.fromiter((bool(predicate(n)) for n in self.names), bool, len(self.names)))

    def find_rows_by_mask(self, name_mask: Mask, block: slice | None = None) -> Indices:
        """Return the sorted rows of the events whose name is in `name_mask` (boolean over `names`),
        within the slice `block` (all rows by default).
        """
        if not name_mask.any():
            return np.zeros(0, np.int64)
        begin, end, _ = (block or slice(None)).indices(len(self))
        parts = [
            np.flatnonzero(take_codes(name_mask, self.name[at : min(at + BLOCK_EVENTS, end)])) + at
            for at in range(begin, end, BLOCK_EVENTS)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def load_stats(self, names: Iterable[str]) -> None:
        """Decode several stats in one pass over the file; `stat` then returns them without another
        pass.
        """
        with self._loading:
            missing = [n for n in dict.fromkeys(names) if n not in self._stats]
            if missing:
                self._stats.update(compact_columns(self.read_stats(missing)))

    def stat(self, name: str) -> StatColumn:
        """Return all values of the event stat `name`, sorted by event row; empty where the profile
        has none.
        """
        self.load_stats((name,))
        return self._stats[name]

    def read_stats(self, names: Sequence[str]) -> dict[str, StatColumn]:
        """Decode the named stats without caching them."""
        return self._source.read_stats(names)

    def write_line(self, out: TraceWriter, slices: Slices) -> int:
        """Write events of one line into a viewer's file; return their number."""
        return self._source.write_line(out, self, slices)

    def rewrite(self, text: BytesTransform, blob: BytesTransform) -> None:
        """Replace texts and byte values of the source (see `TraceSource`). Values that were decoded
        before are not changed.
        """
        self._source.rewrite(text, blob)
        self._stats.clear()

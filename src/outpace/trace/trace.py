"""`Trace`: one host's profile as columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from outpace import _native
from outpace._caching import ResultCache, once
from outpace._dataclass import dataclass
from outpace.model.arrays import Codes, Indices, Mask, Numbers, Picoseconds
from outpace.trace.algorithms import find_slice, take_codes
from outpace.trace.columns import ComputedColumn, EventColumn, StoredColumn, store_column
from outpace.trace.limits import Window
from outpace.trace.source import BytesTransform, TraceSource
from outpace.trace.stats import StatColumn, Value, compact_columns

if TYPE_CHECKING:
    from outpace.trace.export import Slices, TraceWriter

BLOCK_EVENTS = 1 << 18
"""Events that are looked at together, where all are."""
_POOL = re.compile(r"(.+)/-?\d{10,}")  # longer than any system's number of a thread


@dataclass(frozen=True)
class Plane:
    """One processing element: the host, a device, or metadata. `lines` are rows of
    `Trace.lines`.
    """

    index: int
    id: int
    name: str
    lines: range
    stats: dict[str, Value]


@dataclass(frozen=True, eq=False)
class LineTable:
    """Threads and streams. Events of line i are rows `first_event[i]:first_event[i + 1]`."""

    plane: Codes
    id: Numbers
    timestamp_ns: Numbers
    first_event: Indices
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def row_slice(self, line: int) -> slice:
        """Event rows of one line."""
        return slice(int(self.first_event[line]), int(self.first_event[line + 1]))

    def row_numbers(self, line: int) -> Indices:
        """The same, as numbers."""
        return np.arange(self.first_event[line], self.first_event[line + 1])

    def iter_blocks(self) -> Iterator[slice]:
        """Event rows of whole lines, in order, of as many as hold so many events: what is made of
        all events goes block by block.
        """
        begin, last = 0, int(self.first_event[-1])
        for end in self.first_event[1:].tolist():
            if end > begin and (end - begin >= BLOCK_EVENTS or end == last):
                yield slice(begin, end)
                begin = end

    @once
    def titles(self) -> tuple[str, ...]:
        """The names for a reader. The threads of a pool whose ids tell nothing, being addresses,
        are counted: `tf_Compute 3`.
        """
        numbers: dict[tuple[int, str], int] = {}
        found = []
        for plane, name in zip(self.plane.tolist(), self.names, strict=True):
            pool = _POOL.fullmatch(name)
            if pool is not None:
                number = numbers[plane, pool[1]] = numbers.get((plane, pool[1]), 0) + 1
                name = f"{pool[1]} {number}"
            found.append(name)
        return tuple(found)


@dataclass(frozen=True)
class Damage:
    """Something of the file that could not be read. `offset` and `size` are bytes in the
    (uncompressed) file; without an offset nothing is missing, but something in the file cannot be.
    """

    description: str
    offset: int | None
    size: int
    plane: str


@dataclass(frozen=True, eq=False)
class Trace:
    """One host's events as columns, sorted by (line, start, longer first).

    name: int32 row of `names`; start, duration: int64 ps, start counted from `origin_ns` (ns, as
    the file writes it). They give values of rows (`start[row_slice]`); where there are many, each
    is kept in few bytes. `is_truncated`: whether the end of the file, or of something in it, is
    missing; `unnamed_stats`: how many stats lost their name in damage. `window`: the part of the
    time that was asked for, whose events alone are here; `earliest_ps`: then the start of the
    earliest event of all, ps. `occurrences` maps the row of an aggregated event to how many it
    stands for. Columns cannot be written to; stats are decoded when first asked for.
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
        """End of events, ps: `end[row_slice]`."""
        return ComputedColumn(lambda rows: self.start[rows] + self.duration[rows])

    @property
    def line(self) -> EventColumn:
        """Line of events: `line[row_slice]`."""
        return ComputedColumn(lambda rows: np.searchsorted(self.lines.first_event, rows, side="right") - 1)

    @once
    def parent(self) -> EventColumn:
        """Row of the innermost event around events on their line, -1 for none:
        `parent[row_slice]`.
        """
        above = np.zeros(len(self), np.int32)  # how many rows further up it stands: mostly a few, which take little room
        for block, bounds in self._nested_blocks():
            found = _native.compute_parents(bounds, self.start[block], self.duration[block])
            np.subtract(np.arange(len(found), dtype=np.int32), found, out=above[block], where=found >= 0)
        up, count = store_column(above), len(self)

        def compute(rows: Any) -> Any:
            given = np.arange(*rows.indices(count)) if isinstance(rows, slice) else rows
            more = up[rows]
            return np.where(more > 0, given - more, -1)[()]

        return ComputedColumn(compute)

    def compute_subtree_ends(self, rows: Indices) -> Indices:
        """One past the last row below each of these events (rows in order). It is made anew, by
        blocks: kept, it would be 4 bytes an event.
        """
        found = np.empty(len(rows), np.int32)
        for block, bounds in self._nested_blocks():
            mine = find_slice(rows, block)
            if mine.start < mine.stop:
                ends = _native.compute_subtree_ends(bounds, self.start[block], self.duration[block])
                found[mine] = ends[rows[mine] - block.start] + block.start
        return found

    def compute_masked_subtree_ends(self, mask: Mask | None = None) -> Indices:
        """The same of all events, as if there were none but those of the mask, int32."""
        found = np.empty(len(self), np.int32)
        for block, bounds in self._nested_blocks():
            part = None if mask is None else mask[block]
            np.add(
                _native.compute_subtree_ends(bounds, self.start[block], self.duration[block], part),
                block.start,
                out=found[block],
            )
        return found

    def _nested_blocks(self) -> Iterator[tuple[slice, Indices]]:
        """Blocks of whole lines, and where in each its lines begin and end."""
        bounds = self.lines.first_event
        for block in self.lines.iter_blocks():
            lines = bounds[np.searchsorted(bounds, block.start) : np.searchsorted(bounds, block.stop, side="right")]
            yield block, lines - block.start

    def compute_nesting(self, rows: Indices) -> tuple[Indices, Picoseconds]:
        """(parent row or -1, self time) of each of these events (rows in order), as if there were
        no others.
        """
        bounds = np.searchsorted(rows, self.lines.first_event)
        place, own = _native.compute_nesting(bounds, self.start[rows], self.duration[rows])
        return np.where(place >= 0, rows[place], -1) if len(rows) else place, own

    def compute_mask(self, predicate: Callable[[Picoseconds, Picoseconds], Mask]) -> Mask:
        """Which of all events pass a test, which is given starts and durations of a block of them
        at a time.
        """
        found = np.empty(len(self), bool)
        for at in range(0, len(self), BLOCK_EVENTS):
            block = slice(at, min(at + BLOCK_EVENTS, len(self)))
            found[block] = predicate(self.start[block], self.duration[block])
        return found

    @once
    def span_ps(self) -> tuple[int, int]:
        """First start and last end of all events, ps; twice 0 where there is none."""
        if not len(self):
            return 0, 0
        bounds = self.lines.first_event
        begins = self.start[bounds[:-1][np.diff(bounds) > 0]]  # a line is sorted
        return int(begins.min()), max(int(self.end[at : at + BLOCK_EVENTS].max()) for at in range(0, len(self), BLOCK_EVENTS))

    @once
    def unnamed_events(self) -> int:
        """How many events have lost their name: names stand behind the events, so that a cut file
        lacks them first.
        """
        return len(self.find_rows_by_mask(np.arange(len(self.names)) == len(self.names) - 1))

    @property
    def is_partial(self) -> bool:
        """Whether what is lost may decide which events are steps and what they did: the end of the
        file, where names stand and perhaps other planes stood, or names that damage took.
        """
        return self.is_truncated or (bool(self.damages) and self.unnamed_events + self.unnamed_stats > 0)

    def find_plane(self, name: str) -> Plane | None:
        """The first plane called `name`."""
        return next((p for p in self.planes if p.name == name), None)

    def find_planes(self, prefix: str) -> tuple[Plane, ...]:
        """Planes whose name starts with `prefix`, in file order."""
        return tuple(p for p in self.planes if p.name.startswith(prefix))

    def rows_of(self, plane: Plane) -> slice:
        """Event rows of one plane (a plane's lines stand together)."""
        bounds = self.lines.first_event
        return slice(int(bounds[plane.lines.start]), int(bounds[plane.lines.stop]))

    def find_rows_by_name(self, predicate: Any) -> Indices:
        """Rows of the events whose name passes `predicate` (a predicate on str, called once per
        distinct name).
        """
        return self.find_rows_by_mask(np.fromiter((bool(predicate(n)) for n in self.names), bool, len(self.names)))

    def find_rows_by_mask(self, name_mask: Mask, block: slice | None = None) -> Indices:
        """Rows of the events whose name is wanted (boolean over `names`), in order; `block`: of
        these rows alone.
        """
        if not name_mask.any():
            return np.zeros(0, np.int64)
        begin, end, _ = (block or slice(None)).indices(len(self))
        found = [
            np.flatnonzero(take_codes(name_mask, self.name[at : min(at + BLOCK_EVENTS, end)])) + at
            for at in range(begin, end, BLOCK_EVENTS)
        ]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def load_stats(self, names: Iterable[str]) -> None:
        """Decode several stats in one pass over the file; `stat` then finds them
        without another.
        """
        with self._loading:
            missing = [n for n in dict.fromkeys(names) if n not in self._stats]
            if missing:
                self._stats.update(compact_columns(self.read_stats(missing)))

    def stat(self, name: str) -> StatColumn:
        """All values of the event stat called `name` (empty when the profile has none), sorted by
        event row.
        """
        self.load_stats((name,))
        return self._stats[name]

    def read_stats(self, names: Sequence[str]) -> dict[str, StatColumn]:
        """Decode the named stats without keeping them."""
        return self._source.read_stats(names)

    def write_line(self, out: TraceWriter, slices: Slices) -> int:
        """Write events of one line into the file of a viewer; returns how many."""
        return self._source.write_line(out, self, slices)

    def rewrite(self, text: BytesTransform, blob: BytesTransform) -> None:
        """Change the texts and the bytes that the source holds (see `TraceSource`). What was
        decoded before stays as it was.
        """
        self._source.rewrite(text, blob)
        self._stats.clear()

"""`Trace`: one host's profile as columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from outpace import _native
from outpace._dataclass import dataclass
from outpace._once import Derived, once
from outpace.model.arrays import Codes, Indices, Mask, Numbers, Picoseconds
from outpace.trace.algorithms import among, looked_up
from outpace.trace.by_row import ByRow, Computed, Kept, kept
from outpace.trace.limits import Window
from outpace.trace.source import Rewriting, Source
from outpace.trace.stats import StatColumn, Value, compact

if TYPE_CHECKING:
    from outpace.trace.export import Slices, Writer

BLOCK = 1 << 18
"""Events that are looked at together, where all are."""
_POOL = re.compile(r"(.+)/-?\d{10,}")  # longer than any system's number of a thread


@dataclass(frozen=True)
class Plane:
    """One processing element: the host, a device, or metadata. `lines` are rows of `Trace.lines`."""

    index: int
    id: int
    name: str
    lines: range
    stats: dict[str, Value]


@dataclass(frozen=True, eq=False)
class Lines:
    """Threads and streams. Events of line i are rows `first_event[i]:first_event[i + 1]`."""

    plane: Codes
    id: Numbers
    timestamp_ns: Numbers
    first_event: Indices
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def rows(self, line: int) -> slice:
        """Event rows of one line."""
        return slice(int(self.first_event[line]), int(self.first_event[line + 1]))

    def every_row(self, line: int) -> Indices:
        """The same, as numbers."""
        return np.arange(self.first_event[line], self.first_event[line + 1])

    def blocks(self) -> Iterator[slice]:
        """Event rows of whole lines, in order, of as many as hold so many events: what is made of all events goes block by block."""
        begin, last = 0, int(self.first_event[-1])
        for end in self.first_event[1:].tolist():
            if end > begin and (end - begin >= BLOCK or end == last):
                yield slice(begin, end)
                begin = end

    @once
    def titles(self) -> tuple[str, ...]:
        """The names for a reader. The threads of a pool whose ids tell nothing, being addresses, are counted: `tf_Compute 3`."""
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
class Loss:
    """Something of the file that could not be read. `offset` and `size` are bytes in the (uncompressed) file; without an offset nothing is
    missing, but something in the file cannot be."""

    what: str
    offset: int | None
    size: int
    plane: str


@dataclass(frozen=True, eq=False)
class Trace:
    """One host's events as columns, sorted by (line, start, longer first).

    name: int32 row of `names`; start, duration: int64 ps, start counted from `origin_ns` (ns, as the file writes it). They
    give values of rows (`start[rows]`); where there are many, each is kept in few bytes.
    `cut`: whether the end of the file, or of something in it, is missing; `nameless_stats`: how many stats lost their name in damage.
    `window`: the part of the time that was asked for, whose events alone are here; `first`: then the start of the earliest event of all, ps.
    `occurrences` maps the row of an aggregated event to how many it stands for. Columns cannot be written to; stats are decoded when
    first asked for.
    """

    host: str
    source: str
    size: int
    planes: tuple[Plane, ...]
    lines: Lines
    name: Kept
    start: Kept
    duration: Kept
    names: tuple[str, ...]
    display_names: dict[int, str]
    name_plane: Codes
    name_stats: dict[int, dict[str, Value]]
    stat_names: tuple[str, ...]
    origin_ns: int
    occurrences: dict[int, int]
    hostnames: tuple[str, ...]
    messages: tuple[str, ...]
    losses: tuple[Loss, ...]
    _source: Source = field(repr=False)
    cut: bool = False
    nameless_stats: int = 0
    window: Window | None = None
    first: int | None = None
    _stats: dict[str, StatColumn] = field(default_factory=dict, repr=False)
    derived: Derived = field(default_factory=Derived, init=False, repr=False)
    _loading: Lock = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        for column in (self.name_plane, self.lines.plane, self.lines.id, self.lines.timestamp_ns, self.lines.first_event):
            column.setflags(write=False)

    def __len__(self) -> int:
        return int(self.lines.first_event[-1])

    @property
    def end(self) -> ByRow:
        """End of events, ps: `end[rows]`."""
        return Computed(lambda rows: self.start[rows] + self.duration[rows])

    @property
    def line(self) -> ByRow:
        """Line of events: `line[rows]`."""
        return Computed(lambda rows: np.searchsorted(self.lines.first_event, rows, side="right") - 1)

    @once
    def parent(self) -> ByRow:
        """Row of the innermost event around events on their line, -1 for none: `parent[rows]`."""
        above = np.zeros(len(self), np.int32)  # how many rows further up it stands: mostly a few, which take little room
        for block, bounds in self._nested_blocks():
            found = _native.parents(bounds, self.start[block], self.duration[block])
            np.subtract(np.arange(len(found), dtype=np.int32), found, out=above[block], where=found >= 0)
        up, count = kept(above), len(self)

        def compute(rows: Any) -> Any:
            given = np.arange(*rows.indices(count)) if isinstance(rows, slice) else rows
            more = up[rows]
            return np.where(more > 0, given - more, -1)[()]

        return Computed(compute)

    def subtree_end(self, rows: Indices) -> Indices:
        """One past the last row below each of these events (rows in order). It is made anew, by blocks: kept, it would be 4 bytes an event."""
        found = np.empty(len(rows), np.int32)
        for block, bounds in self._nested_blocks():
            mine = among(rows, block)
            if mine.start < mine.stop:
                ends = _native.subtree_ends(bounds, self.start[block], self.duration[block])
                found[mine] = ends[rows[mine] - block.start] + block.start
        return found

    def subtree_ends(self, mask: Mask | None = None) -> Indices:
        """The same of all events, as if there were none but those of the mask, int32."""
        found = np.empty(len(self), np.int32)
        for block, bounds in self._nested_blocks():
            part = None if mask is None else mask[block]
            np.add(_native.subtree_ends(bounds, self.start[block], self.duration[block], part), block.start, out=found[block])
        return found

    def _nested_blocks(self) -> Iterator[tuple[slice, Indices]]:
        """Blocks of whole lines, and where in each its lines begin and end."""
        bounds = self.lines.first_event
        for block in self.lines.blocks():
            lines = bounds[np.searchsorted(bounds, block.start) : np.searchsorted(bounds, block.stop, side="right")]
            yield block, lines - block.start

    def nested(self, rows: Indices) -> tuple[Indices, Picoseconds]:
        """(parent row or -1, self time) of each of these events (rows in order), as if there were no others."""
        bounds = np.searchsorted(rows, self.lines.first_event)
        place, own = _native.nest(bounds, self.start[rows], self.duration[rows])
        return np.where(place >= 0, rows[place], -1) if len(rows) else place, own

    def passing(self, test: Callable[[Picoseconds, Picoseconds], Mask]) -> Mask:
        """Which of all events pass a test, which is given starts and durations of a block of them at a time."""
        found = np.empty(len(self), bool)
        for at in range(0, len(self), BLOCK):
            block = slice(at, min(at + BLOCK, len(self)))
            found[block] = test(self.start[block], self.duration[block])
        return found

    @once
    def span(self) -> tuple[int, int]:
        """First start and last end of all events, ps; twice 0 where there is none."""
        if not len(self):
            return 0, 0
        bounds = self.lines.first_event
        begins = self.start[bounds[:-1][np.diff(bounds) > 0]]  # a line is sorted
        return int(begins.min()), max(int(self.end[at : at + BLOCK].max()) for at in range(0, len(self), BLOCK))

    @once
    def nameless(self) -> int:
        """How many events have lost their name: names stand behind the events, so that a cut file lacks them first."""
        return len(self.rows_named(np.arange(len(self.names)) == len(self.names) - 1))

    @property
    def partial(self) -> bool:
        """Whether what is lost may decide which events are steps and what they did: the end of the file, where names stand and perhaps other
        planes stood, or names that damage took."""
        return self.cut or (bool(self.losses) and self.nameless + self.nameless_stats > 0)

    def plane(self, name: str) -> Plane | None:
        """The first plane called `name`."""
        return next((p for p in self.planes if p.name == name), None)

    def planes_like(self, prefix: str) -> tuple[Plane, ...]:
        """Planes whose name starts with `prefix`, in file order."""
        return tuple(p for p in self.planes if p.name.startswith(prefix))

    def rows_of(self, plane: Plane) -> slice:
        """Event rows of one plane (a plane's lines stand together)."""
        bounds = self.lines.first_event
        return slice(int(bounds[plane.lines.start]), int(bounds[plane.lines.stop]))

    def named(self, test: Any) -> Indices:
        """Rows of the events whose name passes `test` (a predicate on str, called once per distinct name)."""
        return self.rows_named(np.fromiter((bool(test(n)) for n in self.names), bool, len(self.names)))

    def rows_named(self, wanted: Mask, part: slice | None = None) -> Indices:
        """Rows of the events whose name is wanted (boolean over `names`), in order; `part`: of these rows alone."""
        if not wanted.any():
            return np.zeros(0, np.int64)
        begin, end, _ = (part or slice(None)).indices(len(self))
        found = [
            np.flatnonzero(looked_up(wanted, self.name[at : min(at + BLOCK, end)])) + at for at in range(begin, end, BLOCK)
        ]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def load(self, names: Iterable[str]) -> None:
        """Decode several stats in one pass over the file; `stat` then finds them without another."""
        with self._loading:
            missing = [n for n in dict.fromkeys(names) if n not in self._stats]
            if missing:
                self._stats.update(compact(self.find_stats(missing)))

    def stat(self, name: str) -> StatColumn:
        """All values of the event stat called `name` (empty when the profile has none), sorted by event row."""
        self.load((name,))
        return self._stats[name]

    def find_stats(self, names: Sequence[str]) -> dict[str, StatColumn]:
        """Decode the named stats without keeping them."""
        return self._source.find_stats(names)

    def write_line(self, out: Writer, slices: Slices) -> int:
        """Write events of one line into the file of a viewer; returns how many."""
        return self._source.write_line(out, self, slices)

    def rewrite(self, text: Rewriting, blob: Rewriting) -> None:
        """Change the texts and the bytes that the source holds (see `Source`). What was decoded before stays as it was."""
        self._source.rewrite(text, blob)
        self._stats.clear()

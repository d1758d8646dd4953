"""`Trace`: one host's profile as columns."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from outpace import _native
from outpace._dataclass import dataclass
from outpace.trace.stats import StatColumn, Value

Array = npt.NDArray[Any]
_NO_STATS: tuple[Array, Array, Array, Array] = (
    np.zeros(0, np.int32),
    np.zeros(0, np.uint8),
    np.zeros(0, np.uint64),
    np.zeros(0, np.uint32),
)


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

    plane: Array
    id: Array
    timestamp_ns: Array
    first_event: Array
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def rows(self, line: int) -> slice:
        """Event rows of one line."""
        return slice(int(self.first_event[line]), int(self.first_event[line + 1]))


@dataclass(frozen=True)
class Loss:
    """Something of the file that could not be read. `offset` and `size` are bytes in the (uncompressed) file."""

    what: str
    offset: int
    size: int
    plane: str


@dataclass(frozen=True, eq=False)
class Trace:
    """One host's events as columns, sorted by (line, start, longer first).

    name: int32 row of `names`; start, duration: int64 ps, start counted from `origin_ns` (ns, as the file writes it).
    `occurrences` maps the row of an aggregated event to how many it stands for. Immutable; stats are decoded when first asked for.
    """

    host: str
    source: str
    size: int
    planes: tuple[Plane, ...]
    lines: Lines
    name: Array
    start: Array
    duration: Array
    names: tuple[str, ...]
    display_names: dict[int, str]
    name_plane: Array
    name_stats: dict[int, dict[str, Value]]
    stat_names: tuple[str, ...]
    origin_ns: int
    occurrences: dict[int, int]
    hostnames: tuple[str, ...]
    messages: tuple[str, ...]
    losses: tuple[Loss, ...]
    _handle: Handle = field(repr=False)
    _stats: dict[str, StatColumn] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.name)

    @cached_property
    def end(self) -> Array:
        """End of every event, ps."""
        return self.start + self.duration

    @cached_property
    def line(self) -> Array:
        """Line of every event."""
        return np.repeat(np.arange(len(self.lines), dtype=np.int32), np.diff(self.lines.first_event))

    @cached_property
    def nesting(self) -> tuple[Array, Array, Array]:
        """(parent, subtree_end, self time) of every event among all events of its line."""
        return _native.nest(self.lines.first_event, self.start, self.duration)

    @cached_property
    def nameless(self) -> int:
        """How many events have lost their name: names stand behind the events, so that a cut file lacks them first."""
        return int((self.name == len(self.names) - 1).sum())

    @property
    def lossy(self) -> bool:
        """Whether something of the file is missing or could not be read: bytes, names, or times. What was not seen proves nothing then."""
        return bool(self.losses) or self.nameless > 0

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

    def named(self, test: Any) -> Array:
        """Rows of the events whose name passes `test` (a predicate on str, called once per distinct name)."""
        wanted = np.fromiter((bool(test(n)) for n in self.names), bool, len(self.names))
        return np.flatnonzero(wanted[self.name])

    def load(self, names: Iterable[str]) -> None:
        """Decode several stats in one pass over the file; `stat` then finds them without another."""
        missing = [n for n in dict.fromkeys(names) if n not in self._stats]
        if missing:
            self._stats.update(self.find_stats(missing))

    def stat(self, name: str) -> StatColumn:
        """All values of the event stat called `name` (empty when the profile has none), sorted by event row."""
        self.load((name,))
        return self._stats[name]

    def find_stats(self, names: Sequence[str], rows: slice | None = None) -> dict[str, StatColumn]:
        """Decode the named stats of the events in a window of rows (all events when none is given), without keeping them."""
        window = rows or slice(0, len(self))
        place = {name: i for i, name in enumerate(names)}
        column_of = np.fromiter((place.get(n, -1) for n in self.stat_names), np.int32, len(self.stat_names))
        if not np.any(column_of >= 0):  # the profile knows none of the names: no pass over the file
            none = StatColumn("", *_NO_STATS, self._handle.data, self.stat_names)
            return {name: replace(none, name=name) for name in names}
        first, (row, *values) = self._handle.find_stats(column_of, len(names), window.start, window.stop)
        found = {}
        for i, name in enumerate(names):
            mine = slice(int(first[i]), int(first[i + 1]))
            kind, bits, length = (v[mine] for v in values)
            found[name] = StatColumn(name, row[mine], kind, bits, length, self._handle.data, self.stat_names)
        return found

    @property
    def space(self) -> int:
        """Address of the core's index, for its other functions; valid as long as the trace lives."""
        return self._handle.address

    def event_stats(self, row: int) -> dict[str, Value]:
        """All stats of one event by name (for a details view; slow for many)."""
        names = list(dict.fromkeys(self.stat_names))
        found = self.find_stats(names, slice(row, row + 1))
        return {name: stat.value(len(stat) - 1) for name, stat in found.items() if len(stat)}


class Handle:
    """Owner of the core's index over one buffer; keeps the buffer alive and frees the index."""

    def __init__(self, data: Array) -> None:
        self.data = data
        space = ctypes.c_uint64()
        _native.call("ox_open", data, len(data), _native.threads(), space)
        self.address: int = space.value
        self.sizes = _native.Sizes()
        _native.call("ox_get_sizes", self.address, self.sizes)

    def fill(self, function: str, *arrays: Array) -> None:
        """Call `ox_<function>(space, arrays...)`."""
        _native.call(function, self.address, *arrays)

    def events(self) -> tuple[Array, Array, Array]:
        """Decode all events: name, start, duration."""
        count = self.sizes.events
        name = np.empty(count, np.int32)
        start, duration = np.empty(count, np.int64), np.empty(count, np.int64)
        _native.call("ox_events", self.address, _native.threads(), name, start, duration)
        _native.call("ox_get_sizes", self.address, self.sizes)
        return name, start, duration

    def find_stats(self, column_of: Array, columns: int, begin: int, end: int) -> tuple[Array, tuple[Array, ...]]:
        """Bounds of each column, and row, kind, value bits and length of the stats of events in [begin, end)."""
        found = ctypes.c_uint64()
        _native.call("ox_find_stats", self.address, column_of, columns, begin, end, _native.threads(), found)
        try:
            first = np.zeros(columns + 1, np.uint64)
            _native.call("ox_stats_bounds", found.value, first)
            out = tuple(np.empty(int(first[-1]), t) for t in (np.int32, np.uint8, np.uint64, np.uint32))
            _native.call("ox_stats_take", found.value, _native.threads(), *out)
        finally:
            _native.end("ox_stats_close", found.value)
        return first, out

    def __del__(self) -> None:
        address = self.__dict__.pop("address", 0)
        if address:
            _native.end("ox_close", address)

"""What a trace asks of the format that its profile came in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from outpace.trace.stats import StatColumn

if TYPE_CHECKING:
    from outpace.trace.export import Slices, Writer
    from outpace.trace.trace import Trace


class Source(Protocol):
    """Where the stats of a trace are, and how its events get into the file of a viewer."""

    def find_stats(self, names: Sequence[str], begin: int, end: int) -> dict[str, StatColumn]:
        """The named stats of the events in rows [begin, end), one column per name (empty when the profile has none), sorted by row."""
        ...

    def write_line(self, out: Writer, trace: Trace, slices: Slices) -> int:
        """Write events of one line of the trace; returns how many."""
        ...


class InMemory:
    """A source whose stats are columns already: what a format needs that has no core of its own."""

    def __init__(self, stats: Mapping[str, StatColumn]) -> None:
        self._stats = dict(stats)

    def find_stats(self, names: Sequence[str], begin: int, end: int) -> dict[str, StatColumn]:
        """See `Source`."""
        found = {}
        for name in names:
            column = self._stats.get(name, StatColumn.of(name, (), ()))
            low, high = np.searchsorted(column.row, (begin, end))
            found[name] = column.slice(int(low), int(high))
        return found

    def write_line(self, out: Writer, trace: Trace, slices: Slices) -> int:
        """See `Source`: as slices that no file holds. Arrows between events are left out."""
        from outpace.trace.export import ComputedSlices

        rows = np.arange(*trace.lines.rows(slices.line).indices(len(trace)))
        if slices.mask is not None:
            rows = rows[np.asarray(slices.mask, bool)[rows]]
        wanted = (
            [name for name, take in zip(trace.stat_names, slices.arguments, strict=True) if take]
            if slices.arguments is not None
            else []
        )
        arguments = {}
        for name in wanted:
            column = self._stats.get(name, StatColumn.of(name, (), ()))
            known = dict(zip(column.row.tolist(), column.texts(), strict=True))
            arguments[name] = [known.get(row, "") for row in rows.tolist()]
        names = [trace.names[name] for name in trace.name[rows].tolist()]
        made = ComputedSlices(trace.start[rows], trace.duration[rows], names, arguments)
        return out.made(slices.track, made, shift_ns=slices.shift_ns)

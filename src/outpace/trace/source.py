"""What a trace asks of the format that its profile came in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from outpace.trace.stats import StatColumn, Value

if TYPE_CHECKING:
    from outpace.trace.export import Slices, TraceWriter
    from outpace.trace.trace import Trace


BytesTransform = Callable[[bytes], bytes]


class TraceSource(Protocol):
    """Where the stats of a trace are, and how its events get into the file of a viewer."""

    def read_stats(self, names: Sequence[str]) -> dict[str, StatColumn]:
        """The named stats, one column per name (empty when the profile has none), sorted by row, at
        most one value each.
        """
        ...

    def write_line(self, out: TraceWriter, trace: Trace, slices: Slices) -> int:
        """Write events of one line of the trace; returns how many."""
        ...

    def rewrite(self, text: BytesTransform, blob: BytesTransform) -> None:
        """Put what `text` makes of each text, and `blob` of each value of bytes, in its place, in
        all that it holds. Sizes stay.
        """
        ...


class InMemorySource:
    """A source whose stats are columns already: what a format needs that has no core of its own."""

    def __init__(self, stats: Mapping[str, StatColumn]) -> None:
        self._stats = dict(stats)

    def read_stats(self, names: Sequence[str]) -> dict[str, StatColumn]:
        """See `TraceSource`."""
        return {name: self._stats.get(name, StatColumn.from_values(name, (), ())) for name in names}

    def write_line(self, out: TraceWriter, trace: Trace, slices: Slices) -> int:
        """See `TraceSource`: as slices that no file holds. Arrows between events are left out."""
        from outpace.trace.export import ComputedSlices

        rows = trace.lines.row_numbers(slices.line)
        if slices.mask is not None:
            rows = rows[np.asarray(slices.mask, bool)[rows]]
        wanted = (
            [name for name, take in zip(trace.stat_names, slices.argument_mask, strict=True) if take]
            if slices.argument_mask is not None
            else []
        )
        arguments = {}
        for name in wanted:
            column = self._stats.get(name, StatColumn.from_values(name, (), ()))
            known = dict(zip(column.rows.tolist(), column.texts(), strict=True))
            arguments[name] = [known.get(row, "") for row in rows.tolist()]
        names = [trace.names[name] for name in trace.name[rows].tolist()]
        made = ComputedSlices(trace.start[rows], trace.duration[rows], names, arguments)
        return out.write_slices(slices.track, made, shift_ns=slices.shift_ns)

    def rewrite(self, text: BytesTransform, blob: BytesTransform) -> None:
        """See `TraceSource`."""

        def rewritten(value: Value) -> Value:
            if isinstance(value, str):
                return text(value.encode("utf-8", "replace")).decode("utf-8", "replace")
            return blob(value) if isinstance(value, bytes) else value

        for name, column in self._stats.items():
            values = [rewritten(column.value(at)) for at in range(len(column))]
            self._stats[name] = StatColumn.from_values(name, column.rows.tolist(), values)

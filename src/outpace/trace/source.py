# SPDX-License-Identifier: Apache-2.0
"""Interface between a trace and the format of its profile."""

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
    """Access to the file of a trace: its stats, the export of its events, and redaction."""

    def read_stats(self, names: Sequence[str]) -> dict[str, StatColumn]:
        """Return the named stats, one column per name (empty where the profile has none), sorted by
        row, with at most one value per event.
        """
        ...

    def write_line(self, out: TraceWriter, trace: Trace, slices: Slices) -> int:
        """Write events of one line of the trace; return their number."""
        ...

    def rewrite(self, text: BytesTransform, blob: BytesTransform) -> None:
        """Replace each text by `text(bytes)` and each value of bytes by `blob(bytes)`, in all that
        the source contains. Sizes must not change.
        """
        ...


class InMemorySource:
    """Source whose stats are columns in memory, for formats without a core of their own."""

    def __init__(self, stats: Mapping[str, StatColumn]) -> None:
        self._stats = dict(stats)

    def read_stats(self, names: Sequence[str]) -> dict[str, StatColumn]:
        """Return the named stats: see `TraceSource`."""
        return {name: self._stats.get(name, StatColumn.from_values(name, (), ())) for name in names}

    def write_line(self, out: TraceWriter, trace: Trace, slices: Slices) -> int:
        """Write events as computed slices, without flow arrows: see `TraceSource`."""
        from outpace.trace.export import ComputedSlices

        rows = trace.lines.row_numbers(slices.line)
        if slices.mask is not None:
            rows = rows[np.asarray(slices.mask, bool)[rows]]
        stats = (
            [name for name, take in zip(trace.stat_names, slices.argument_mask, strict=True) if take]
            if slices.argument_mask is not None
            else []
        )
        arguments = {}
        for name in stats:
            column = self._stats.get(name, StatColumn.from_values(name, (), ()))
            texts = dict(zip(column.rows.tolist(), column.texts(), strict=True))
            arguments[name] = [texts.get(row, "") for row in rows.tolist()]
        names = [trace.names[name] for name in trace.name[rows].tolist()]
        computed = ComputedSlices(trace.start[rows], trace.duration[rows], names, arguments)
        return out.write_slices(slices.track, computed, shift_ns=slices.shift_ns)

    def rewrite(self, text: BytesTransform, blob: BytesTransform) -> None:
        """Replace texts and byte values of the columns: see `TraceSource`."""

        def rewritten(value: Value) -> Value:
            if isinstance(value, str):
                return text(value.encode("utf-8", "replace")).decode("utf-8", "replace")
            return blob(value) if isinstance(value, bytes) else value

        for name, column in self._stats.items():
            values = [rewritten(column.value(at)) for at in range(len(column))]
            self._stats[name] = StatColumn.from_values(name, column.rows.tolist(), values)

# SPDX-License-Identifier: Apache-2.0
"""Selection of some events of a trace as a trace of their own, whose stats are still read from the
whole trace's source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from outpace.model.arrays import Indices
from outpace.trace.columns import store_column
from outpace.trace.limits import Window
from outpace.trace.source import BytesTransform
from outpace.trace.stats import StatColumn
from outpace.trace.trace import LineTable, Trace

if TYPE_CHECKING:
    from outpace.trace.export import Slices, TraceWriter


def select_rows(trace: Trace, rows: Indices) -> Trace:
    """Return the trace with only the events in `rows` (sorted). All planes, lines and names stay,
    also those without an event.
    """
    bounds = np.searchsorted(rows, trace.lines.first_event)
    lines = LineTable(
        trace.lines.plane,
        trace.lines.id,
        trace.lines.timestamp_ns,
        bounds.astype(trace.lines.first_event.dtype),
        trace.lines.names,
    )
    place_of = {int(row): place for place, row in enumerate(rows.tolist())} if trace.occurrences else {}
    return replace(
        trace,
        lines=lines,
        name=store_column(trace.name[rows]),
        start=store_column(trace.start[rows]),
        duration=store_column(trace.duration[rows]),
        occurrences={place_of[row]: count for row, count in trace.occurrences.items() if row in place_of},
        _source=_Part(trace, rows),
        _stats={},
        _loading=Lock(),
    )


def select_window(trace: Trace, window: Window) -> Trace:
    """Return the trace with only a window's events. Raises UsageError where the window is empty."""
    first, last = trace.span_ps
    rows = np.flatnonzero(trace.compute_mask(lambda start, duration: window.event_mask(start, duration, first)))
    if not len(rows):
        raise window.empty_error(trace.source, last - first)
    return replace(select_rows(trace, rows), window=window, earliest_ps=first)


class _Part:
    """Source of a selection: see `TraceSource`."""

    def __init__(self, whole: Trace, rows: Indices) -> None:
        self._whole, self._rows = whole, rows

    def read_stats(self, names: Sequence[str]) -> dict[str, StatColumn]:
        """Return the stats of the selected events, by their rows in the selection."""
        self._whole.load_stats(names)
        return {name: _select_values(self._whole.stat(name), self._rows) for name in names}

    def write_line(self, out: TraceWriter, trace: Trace, slices: Slices) -> int:
        """Write the selected events of a line through the whole trace; return their number."""
        from outpace.trace.export import NO_FLOWS

        mask = np.zeros(len(self._whole), bool)
        mask[self._rows if slices.mask is None else self._rows[np.asarray(slices.mask, bool)]] = True
        return self._whole.write_line(out, replace(slices, mask=mask, flows=NO_FLOWS))

    def rewrite(self, text: BytesTransform, blob: BytesTransform) -> None:
        """Rewrite the source of the whole trace: see `TraceSource`."""
        self._whole.rewrite(text, blob)


def _select_values(column: StatColumn, rows: Indices) -> StatColumn:
    """Return the values of the events in `rows`, by their positions in `rows`."""
    at = np.searchsorted(rows, column.rows)
    places = np.flatnonzero(np.append(rows, -1)[at] == column.rows)
    row = at[places].astype(column.rows.dtype)
    return StatColumn(
        column.name, row, column.kind[places], column.bits[places], column.length[places], column._content, column._names
    )

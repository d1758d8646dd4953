# SPDX-License-Identifier: Apache-2.0
"""The event of a thread that covers most of a time span."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.spans import line_busy_time
from outpace.model.arrays import Indices, Numbers, Picoseconds
from outpace.trace import Trace


@dataclass(frozen=True, eq=False)
class Activity:
    """The event that represents each of several spans, such as the idle gaps of a device.

    rows: row of the event; -1 for none; one item per span
    covered_ps: time of the span that the event covers, ps, int64
    """

    rows: Indices
    covered_ps: Picoseconds

    def merge(self, other: Activity, priority: Callable[[Indices], Numbers]) -> Activity:
        """Return the better event of two activities for each span.

        The event of higher priority wins, then the one that covers more; on a tie this activity's
        event stays.

        other: activity of the same spans
        priority: priority by event row, whole numbers
        """
        rank, other_rank = self._rank(priority), other._rank(priority)
        take = (other.rows >= 0) & ((other_rank > rank) | ((other_rank == rank) & (other.covered_ps > self.covered_ps)))
        return Activity(np.where(take, other.rows, self.rows), np.where(take, other.covered_ps, self.covered_ps))

    def _rank(self, priority: Callable[[Indices], Numbers]) -> Numbers:
        """Return the rank of each span's event: 0 without an event, else 1 and its priority."""
        has_event = self.rows >= 0
        return np.where(has_event, 1 + priority(np.maximum(self.rows, 0)), 0)


def find_innermost(trace: Trace, line: int, start: Picoseconds, end: Picoseconds) -> Activity:
    """Return the innermost event of a line that covers at least half of each span.

    Where no single event covers half, but all together do, return the one that covers most.

    start, end: bounds of the spans [start, end), ps, in order and disjoint

    Two kinds of event are examined: those that begin inside a span (of those that cover half of it,
    the last one to begin is the innermost), and those that are open when the span begins (a chain
    of parents, each longer than the one inside it).
    """
    rows = trace.lines.row_slice(line)
    best = _Best(np.full(len(start), -1, np.int64), np.zeros(len(start), np.int64))
    if rows.start == rows.stop or len(start) == 0:
        return best.row_and_part()
    first, last = trace.start.searchsorted(rows, start, "right"), trace.start.searchsorted(rows, end)
    best.begun_inside(trace, start, end, first, last)
    best.open_before(trace, start, end, np.where(first > rows.start, first - 1, -1))
    together = line_busy_time(trace, line).busy_until(end) - line_busy_time(trace, line).busy_until(start)
    several = (best.row < 0) & (2 * together >= end - start)
    best.row[several], best.part[several] = best.largest[several], best.most[several]
    return best.row_and_part()


class _Best:
    """The best events found so far, one item per span.

    row, part: event that covers at least half of the span (-1 for none), and the time that it
        covers, ps
    largest, most: event that covers most of the span (-1 for none), and the time that it covers, ps
    """

    def __init__(self, row: Indices, part: Picoseconds) -> None:
        self.row, self.part = row, part
        self.largest, self.most = row.copy(), part.copy()

    def row_and_part(self) -> Activity:
        """Return the events that cover at least half of their span."""
        return Activity(self.row, np.where(self.row >= 0, self.part, 0))

    def begun_inside(self, trace: Trace, start: Picoseconds, end: Picoseconds, first: Indices, last: Indices) -> None:
        """Update with the events that begin inside a span: rows `first[i]` to `last[i]` (exclusive)
        of span i.
        """
        count = np.maximum(last - first, 0)
        span = np.repeat(np.arange(len(start)), count)
        event = np.arange(len(span)) - np.repeat(np.cumsum(count) - count, count) + first[span]
        part = np.minimum(trace.end[event], end[span]) - trace.start[event]
        half = 2 * part >= (end - start)[span]
        # Events are in order of start, so that the last one wins.
        self.row[span[half]], self.part[span[half]] = event[half], part[half]
        order = np.argsort(part, kind="stable")
        self.largest[span[order]], self.most[span[order]] = event[order], part[order]

    def open_before(self, trace: Trace, start: Picoseconds, end: Picoseconds, at: Indices) -> None:
        """Update with the events that are open when a span begins.

        at: last event that begins before each span, -1 for none; its parents are followed upwards
        """
        span = np.flatnonzero((at >= 0) & (self.row < 0))
        at = at[span]
        while len(span):
            part = np.maximum(np.minimum(trace.end[at], end[span]) - start[span], 0)
            more = part > self.most[span]
            self.largest[span[more]], self.most[span[more]] = at[more], part[more]
            half = 2 * part >= (end - start)[span]
            self.row[span[half]], self.part[span[half]] = at[half], part[half]
            at = trace.parent[at]
            up = (at >= 0) & ~half
            span, at = span[up], at[up]

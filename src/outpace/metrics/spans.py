# SPDX-License-Identifier: Apache-2.0
"""Unions and intersections of spans of time, and the busy time of a line."""

from __future__ import annotations

from typing import cast

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.arrays import Indices, Picoseconds
from outpace.trace import Trace

Spans = tuple[Picoseconds, Picoseconds]  # starts and ends, ps: disjoint spans in order of time


def merge_sorted_spans(start: Picoseconds, end: Picoseconds) -> Spans:
    """Return the union of spans as disjoint spans in order of time, int64 ps.

    The spans have to be sorted by start. Spans that overlap or touch become one.
    """
    if len(start) == 0:
        return start, end
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    return start[opens], reach[np.append(opens[1:] - 1, len(reach) - 1)]


def merge_spans(start: Picoseconds, end: Picoseconds) -> Spans:
    """Return the union of spans in any order as disjoint spans in order of time, int64 ps.

    Spans without length are left out.
    """
    keep = end > start
    order = np.argsort(start[keep], kind="stable")
    return merge_sorted_spans(start[keep][order], end[keep][order])


def intersect_spans(start: Picoseconds, end: Picoseconds, spans: Spans) -> tuple[Indices, Picoseconds, Picoseconds]:
    """Return (window, start, end) of every piece of `spans` that lies inside a window.

    start: starts of the windows, ps
    end: ends of the windows, ps
    spans: disjoint spans in order of time (`Spans`)

    The result has an entry per piece: the index of its window, and its start and end, ps.
    """
    begin, stop = spans
    low = np.searchsorted(stop, start, side="right")
    high = np.searchsorted(begin, end, side="left")
    count = np.maximum(high - low, 0)
    window = np.repeat(np.arange(len(start)), count)
    at = np.arange(len(window)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    return window, np.maximum(begin[at], start[window]), np.minimum(stop[at], end[window])


@dataclass(frozen=True, eq=False)
class BusyTime:
    """The time in which a line had an event open: disjoint spans in order of time.

    start: starts of the spans, ps
    end: ends of the spans, ps
    cumulative_ps: total length of all spans before each span, ps
    """

    start: Picoseconds
    end: Picoseconds
    cumulative_ps: Picoseconds

    @classmethod
    def from_sorted_spans(cls, start: Picoseconds, end: Picoseconds) -> BusyTime:
        """Return the busy time of events, whose starts and ends (ps) are sorted by start."""
        start, end = merge_sorted_spans(start, end)
        return cls(start, end, np.cumsum(end - start) - (end - start))

    def busy_until(self, times: Picoseconds) -> Picoseconds:
        """Return the busy time before each of `times`, ps."""
        at = np.searchsorted(self.start, times, side="right")
        if len(self.start) == 0:
            return np.zeros(len(times), np.int64)
        last = np.maximum(at - 1, 0)
        return np.where(at > 0, self.cumulative_ps[last] + np.minimum(times, self.end[last]) - self.start[last], 0)

    def snap_to_start(self, times: Picoseconds) -> Picoseconds:
        """Return `times`, with each one that lies inside a span moved back to that span's start,
        ps.
        """
        if len(self.start) == 0:
            return times
        at = np.maximum(np.searchsorted(self.start, times, side="left") - 1, 0)
        return np.where((self.start[at] < times) & (times < self.end[at]), self.start[at], times)


def line_busy_time(trace: Trace, line: int) -> BusyTime:
    """Return the busy time of a line.

    The trace caches it, since every device asks for the busy time of the host's threads.
    """

    rows = trace.lines.row_slice(line)
    return cast(
        BusyTime,
        trace.cache.get((line_busy_time, line), lambda: BusyTime.from_sorted_spans(trace.start[rows], trace.end[rows])),
    )

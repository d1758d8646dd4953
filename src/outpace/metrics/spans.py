"""Unions of spans of time."""

from __future__ import annotations

from typing import cast

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.arrays import Indices, Picoseconds
from outpace.trace import Trace

Spans = tuple[Picoseconds, Picoseconds]  # starts and ends, sorted, disjoint


def merge_sorted_spans(start: Picoseconds, end: Picoseconds) -> Spans:
    """Union of spans (sorted by start) as spans that neither overlap nor touch, in
    order; int64 ps.
    """
    if len(start) == 0:
        return start, end
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    return start[opens], reach[np.append(opens[1:] - 1, len(reach) - 1)]


def merge_spans(start: Picoseconds, end: Picoseconds) -> Spans:
    """The same time, of spans in any order, as disjoint ones in order; what has no
    length is none.
    """
    keep = end > start
    order = np.argsort(start[keep], kind="stable")
    return merge_sorted_spans(start[keep][order], end[keep][order])


def intersect_spans(start: Picoseconds, end: Picoseconds, spans: Spans) -> tuple[Indices, Picoseconds, Picoseconds]:
    """(window, start, end) of every piece of the intervals inside the windows [start, end)."""
    begin, stop = spans
    low = np.searchsorted(stop, start, side="right")
    high = np.searchsorted(begin, end, side="left")
    count = np.maximum(high - low, 0)
    window = np.repeat(np.arange(len(start)), count)
    at = np.arange(len(window)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    return window, np.maximum(begin[at], start[window]), np.minimum(stop[at], end[window])


@dataclass(frozen=True, eq=False)
class BusyTime:
    """When a line had an event open: disjoint spans in order, ps, and how long all before each are
    together.
    """

    start: Picoseconds
    end: Picoseconds
    cumulative_ps: Picoseconds

    @classmethod
    def from_sorted_spans(cls, start: Picoseconds, end: Picoseconds) -> BusyTime:
        """Of events in order of their start."""
        start, end = merge_sorted_spans(start, end)
        return cls(start, end, np.cumsum(end - start) - (end - start))

    def busy_until(self, times: Picoseconds) -> Picoseconds:
        """Length of the part of the spans that lies before each of `times`."""
        at = np.searchsorted(self.start, times, side="right")
        if len(self.start) == 0:
            return np.zeros(len(times), np.int64)
        last = np.maximum(at - 1, 0)
        return np.where(at > 0, self.cumulative_ps[last] + np.minimum(times, self.end[last]) - self.start[last], 0)

    def snap_to_start(self, times: Picoseconds) -> Picoseconds:
        """Each of `times`, or where a span is open then, that span's start."""
        if len(self.start) == 0:
            return times
        at = np.maximum(np.searchsorted(self.start, times, side="left") - 1, 0)
        return np.where((self.start[at] < times) & (times < self.end[at]), self.start[at], times)


def line_busy_time(trace: Trace, line: int) -> BusyTime:
    """The busy time of a line, which the trace keeps: every device asks for that of the host's
    threads.
    """

    rows = trace.lines.row_slice(line)
    return cast(
        BusyTime,
        trace.cache.get((line_busy_time, line), lambda: BusyTime.from_sorted_spans(trace.start[rows], trace.end[rows])),
    )

"""How much of windows of time spans cover."""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Picoseconds

Spans = tuple[Picoseconds, Picoseconds]  # starts and ends, sorted by start; they may overlap


def covered_time(spans: Spans, start: Picoseconds, end: Picoseconds) -> Picoseconds:
    """Of each window [start, end) how much the spans cover, ps; where several do, the time counts
    once.
    """
    begin, stop = spans
    if len(begin) == 0:
        return np.zeros(len(start), np.int64)
    reach = np.maximum.accumulate(stop)
    begin = np.maximum(begin, np.append(begin[:1], reach[:-1]))
    stop = np.maximum(reach, begin)
    total = np.append(0, np.cumsum(stop - begin))

    def until(moment: Picoseconds) -> Picoseconds:
        at = np.searchsorted(begin, moment, side="right")
        return np.asarray(total[at] - np.maximum(np.append(begin[:1], stop)[at] - moment, 0) * (at > 0))

    return until(end) - until(start)

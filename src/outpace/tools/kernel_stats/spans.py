"""Unions of spans of time."""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Picoseconds


def merged(start: Picoseconds, end: Picoseconds) -> tuple[Picoseconds, Picoseconds]:
    """Union of spans (sorted by start) as spans that neither overlap nor touch, in order; int64 ps."""
    if len(start) == 0:
        return start, end
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    return start[opens], reach[np.append(opens[1:] - 1, len(reach) - 1)]


def busy_until(start: Picoseconds, end: Picoseconds, times: Picoseconds) -> Picoseconds:
    """Length of the part of disjoint, ordered spans that lies before each of `times`."""
    total = np.concatenate(([0], np.cumsum(end - start)))
    at = np.searchsorted(start, times, side="right")
    if len(start) == 0:
        return np.zeros(len(times), np.int64)
    last = np.maximum(at - 1, 0)
    return np.where(at > 0, total[last] + np.minimum(times, end[last]) - start[last], 0)

# SPDX-License-Identifier: Apache-2.0
"""Time within windows that is covered by spans."""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Picoseconds

Spans = tuple[Picoseconds, Picoseconds]  # (starts, ends) in ps, sorted by start; spans may overlap


def covered_time(spans: Spans, start: Picoseconds, end: Picoseconds) -> Picoseconds:
    """Return the time of each window [start, end) that is covered by spans, ps; time that several
    spans cover counts once.
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

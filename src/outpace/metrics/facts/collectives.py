# SPDX-License-Identifier: Apache-2.0
"""Collective operations by name: ops in which workers, or devices of one worker, exchange
results.
"""

from __future__ import annotations

import re

import numpy as np

from outpace._caching import memoize
from outpace.model.arrays import Indices, Picoseconds
from outpace.timeline import Timeline
from outpace.trace.algorithms import compute_time_by_priority

_PREFIXES = (
    "Collective",
    "Nccl",
    "nccl",
    "rccl",
    "all-reduce",
    "all-gather",
    "all-to-all",
    "reduce-scatter",
    "AllReduce",
    "AllGather",
)


@memoize
def collective_names(timeline: Timeline) -> dict[str, list[int]]:
    """Return the indices into `trace.names` that are collectives, by type of collective.

    The names are ops of the host, and where it has devices, their ops and kernels as well.
    """
    kinds: dict[str, list[int]] = {}
    for at, op in enumerate(timeline.ops):
        name = op.type or (op.name if timeline.device_planes else "")
        if name.startswith(_PREFIXES):
            kinds.setdefault(re.split(r"[.(<]", name)[0], []).append(at)
    return kinds


@memoize
def collective_rows(timeline: Timeline) -> dict[str, Indices]:
    """Return the event rows of each type of collective, sorted, by type; only events within
    steps.
    """
    trace, by_type = timeline.trace, {}
    for name, indices in collective_names(timeline).items():
        rows = trace.find_rows_by_mask(np.bincount(indices, minlength=len(trace.names)) > 0)
        by_type[name] = rows[timeline.step_index[rows] >= 0]
    return by_type


def covered_step_ps(timeline: Timeline, rows: Indices) -> Picoseconds:
    """Return the time of each step that the events at `rows` cover, ps; overlapping events count
    once.
    """
    trace = timeline.trace
    spans = (trace.start[rows], trace.end[rows], timeline.steps.start, timeline.steps.end)
    covered_ps: Picoseconds = compute_time_by_priority(timeline.step_index[rows], np.ones(len(rows), np.uint8), *spans, 2)[:, 1]
    return covered_ps

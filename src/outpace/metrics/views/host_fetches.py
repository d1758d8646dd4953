# SPDX-License-Identifier: Apache-2.0
"""Arrays that a JAX program fetches from its devices: results that every step reads back.

The time in which the host waits while a device still computes does not count: the host would wait
for the device in any other way, too.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace.metrics.spans import intersect_spans, merge_spans
from outpace.metrics.views.host_copies import copy_sizes, device_compute_rows
from outpace.model import Row, Table, TableType, median
from outpace.model.arrays import Indices
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag

HOST_FETCHES = TableType("host_fetches", "Arrays fetched from the device").columns("""
    * host       | text     | host of the steps
    + bytes      | bytes    | copied from devices to the host in the median step | Bytes per step
    + fetched_ps | ps       | time per step in which a thread fetched an array | Fetching
      share      | fraction | of the step time, while no device computes | Of step
""")


@memoize
def host_fetches(run: Run) -> Table:
    """Return a table with one row per host with devices whose steps fetch arrays."""
    return HOST_FETCHES.build(row for timeline in run.hosts if timeline.device_planes and (row := _row(timeline)) is not None)


def _row(timeline: Timeline) -> Row | None:
    trace, steps = timeline.trace, timeline.steps
    rows = timeline.event_names.rows(EventFlag.ARRAY_FETCH)
    if len(rows) == 0 or len(steps) == 0:
        return None
    whole = steps.steady_rows
    begin, stop = steps.start[whole], steps.end[whole]
    total = float((stop - begin).sum())
    _, start, end = intersect_spans(begin, stop, merge_spans(trace.start[rows], trace.end[rows]))
    busy = device_compute_rows(timeline)
    _, low, high = intersect_spans(start, end, merge_spans(trace.start[busy], trace.end[busy]))
    fetched = float((end - start).sum())
    alone = fetched - float((high - low).sum())
    return HOST_FETCHES.row(
        host=timeline.host,
        bytes=_bytes(timeline, whole),
        fetched_ps=round(fetched / len(whole)),
        share=alone / total if total else 0.0,
    )


def _bytes(timeline: Timeline, step_rows: Indices) -> float:
    """Return the bytes that copies to the host move in the median of some steps. A copy belongs to
    the step in which it begins.
    """
    at, sizes = copy_sizes(timeline, "MemcpyDToH", step_rows)
    return median(np.bincount(at, sizes, len(step_rows))) if len(at) else 0.0

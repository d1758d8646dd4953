# SPDX-License-Identifier: Apache-2.0
"""Arrays that a JAX program fetches from its devices: results that every step reads back.

The time in which the host waits while a device still computes does not count: the host would wait
for the device in any other way, too.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace.metrics.spans import intersect_spans, merge_spans
from outpace.metrics.views.host_copies import device_compute_rows
from outpace.model import Row, Table, TableType, median
from outpace.model.arrays import Indices, Picoseconds
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.gpu_details import parse_copy_details
from outpace.trace import dialect
from outpace.trace.algorithms import intersect_indices

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
        bytes=_bytes(timeline, begin, stop),
        fetched_ps=round(fetched / len(whole)),
        share=alone / total if total else 0.0,
    )


def _bytes(timeline: Timeline, begin: Picoseconds, stop: Picoseconds) -> float:
    """Return the bytes that copies to the host move in the median span [begin, stop).

    A copy belongs to the span in which it begins.
    """
    trace = timeline.trace
    trace.load_stats((dialect.MEMCPY_DETAILS,))
    stat = trace.stat(dialect.MEMCPY_DETAILS)
    to_host = np.fromiter((op.kind is OpKind.COPY and op.type == "MemcpyDToH" for op in timeline.ops), bool, len(timeline.ops))
    rows: Indices = stat.rows[to_host[trace.name[stat.rows]]]
    at = np.searchsorted(begin, trace.start[rows], side="right") - 1
    inside = (at >= 0) & (trace.start[rows] < stop[np.maximum(at, 0)])
    rows, at = rows[inside], at[inside]
    code, texts = stat.encode_texts(intersect_indices(rows, stat.rows)[1])
    sizes = np.array([parse_copy_details(text).bytes for text in texts] or [0], np.int64)
    return median(np.bincount(at, sizes[code], len(begin))) if len(rows) else 0.0

# SPDX-License-Identifier: Apache-2.0
"""Arguments that JAX copies to its devices at each call: NumPy arrays that every step passes again.

A copy delays a step only while nothing computes; in parallel to the ops of the previous step it
costs no time.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace.metrics.facts.jax_activity import xla_worker_rows
from outpace.metrics.spans import intersect_spans, merge_spans
from outpace.model import Row, Table, TableType
from outpace.model.arrays import Indices
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.trace.algorithms import distinct

HOST_COPIES = TableType("host_copies", "Arrays copied to the device").columns("""
    * host      | text     | host of the steps
    + copies    | ratio    | copies per step | Copies per step
    + copied_ps | ps       | time per step in which a thread of JAX copied an array from the host's memory to that of its device \
                             | Copy time
      share     | fraction | of the step time, while no op runs | Of step
""")


@memoize
def host_copies(run: Run) -> Table:
    """Return a table with one row per host whose steps copy arrays."""
    return HOST_COPIES.build(row for timeline in run.hosts if (row := _row(timeline)) is not None)


def _row(timeline: Timeline) -> Row | None:
    trace, steps = timeline.trace, timeline.steps
    rows = timeline.event_names.rows(EventFlag.COPY_TO_DEVICE)
    if len(rows) == 0 or len(steps) == 0:
        return None
    whole = steps.steady_rows
    count, total = len(whole), float(steps.duration[whole].sum())
    _, start, end = intersect_spans(steps.start[whole], steps.end[whole], merge_spans(trace.start[rows], trace.end[rows]))
    begun = np.sort(trace.start[rows])
    begins = np.searchsorted(begun, steps.end[whole]) - np.searchsorted(begun, steps.start[whole])
    copied, busy = (
        float((end - start).sum()),
        distinct(np.concatenate((xla_worker_rows(timeline), device_compute_rows(timeline)))),
    )
    _, begin, stop = intersect_spans(start, end, merge_spans(trace.start[busy], trace.end[busy]))
    alone = copied - float((stop - begin).sum())
    return HOST_COPIES.row(
        host=timeline.host,
        copies=float(begins.sum()) / count,
        copied_ps=round(copied / count),
        share=alone / total if total else 0.0,
    )


def device_compute_rows(timeline: Timeline) -> Indices:
    """Return the rows of the devices' events that are not copies, sorted."""
    trace, copies = timeline.trace, timeline.op_kind_mask(OpKind.COPY)
    lines = (trace.lines.row_numbers(i) for p in timeline.device_planes for i in timeline.device_lines(p))
    rows = np.concatenate([np.zeros(0, np.int64), *lines])
    return np.asarray(rows[~copies[trace.name[rows]]])

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
from outpace.model.arrays import Indices, Numbers
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.gpu_details import parse_copy_details
from outpace.trace import dialect
from outpace.trace.algorithms import distinct, intersect_indices

HOST_COPIES = TableType("host_copies", "Arrays copied to the device").columns("""
    * host      | text     | host of the steps
    + copies    | ratio    | copies per step | Copies per step
    + copied_ps | ps       | time per step in which a thread of JAX copied an array from the host's memory to that of its device \
                             | Copy time
      share     | fraction | of the step time, while no op runs | Of step
      bytes     | bytes    | mean size of a copy; empty where the profile does not tell | Size
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
        bytes=float(np.mean(sizes)) if len(sizes := copy_sizes(timeline, "MemcpyHToD", whole)[1]) else float("nan"),
    )


def copy_sizes(timeline: Timeline, op_type: str, step_rows: Indices) -> tuple[Indices, Numbers]:
    """Return (position of the step among `step_rows`, bytes) of each copy of a type on the host's
    devices that begins in one of these steps.
    """
    trace, steps = timeline.trace, timeline.steps
    trace.load_stats((dialect.MEMCPY_DETAILS,))
    stat = trace.stat(dialect.MEMCPY_DETAILS)
    is_type = np.fromiter((op.kind is OpKind.COPY and op.type == op_type for op in timeline.ops), bool, len(timeline.ops))
    rows: Indices = stat.rows[is_type[trace.name[stat.rows]]]
    at = np.searchsorted(steps.start[step_rows], trace.start[rows], side="right") - 1
    inside = (at >= 0) & (trace.start[rows] < steps.end[step_rows][np.maximum(at, 0)])
    rows, at = rows[inside], at[inside]
    code, texts = stat.encode_texts(intersect_indices(rows, stat.rows)[1])
    sizes = np.array([parse_copy_details(text).bytes for text in texts] or [0], np.int64)
    return at, sizes[code]


def device_compute_rows(timeline: Timeline) -> Indices:
    """Return the rows of the devices' events that are not copies, sorted."""
    trace, copies = timeline.trace, timeline.op_kind_mask(OpKind.COPY)
    lines = (trace.lines.row_numbers(i) for p in timeline.device_planes for i in timeline.device_lines(p))
    rows = np.concatenate([np.zeros(0, np.int64), *lines])
    return np.asarray(rows[~copies[trace.name[rows]]])

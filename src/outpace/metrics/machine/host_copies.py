"""Arguments that JAX copies to its devices at the call: arrays of NumPy that a step passes again and again.

A copy holds a step up only while nothing computes: beside the ops of the step before, it costs no time.
"""

from __future__ import annotations

import numpy as np

from outpace._once import derived
from outpace.metrics.model.jax_time import worked
from outpace.metrics.spans import union, within
from outpace.model import Table, schema
from outpace.model.arrays import Indices
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.names import Is
from outpace.trace.algorithms import distinct

FIELDS = schema("""
    * host      | text     | host of the steps
    + copies    | ratio    | copies per step | Copies per step
    + copied_ps | ps       | time per step in which a thread of JAX copied an array from the host's memory to that of its device \
                             | Copy time
      share     | fraction | of the step time, while no op runs | Of step
""")


@derived
def host_copies(run: Run) -> Table:
    """One row per host whose steps copy arrays."""
    rows = [row for timeline in run.hosts if (row := _row(timeline)) is not None]
    return Table.from_rows("host_copies", "Arrays copied to the device", FIELDS, rows)


def _row(timeline: Timeline) -> tuple[object, ...] | None:
    trace, steps = timeline.trace, timeline.steps
    rows = timeline.names.rows(Is.COPY_TO_DEVICE)
    if len(rows) == 0 or len(steps) == 0:
        return None
    whole = steps.whole
    count, total = len(whole), float(steps.duration[whole].sum())
    _, start, end = within(steps.start[whole], steps.end[whole], union(trace.start[rows], trace.end[rows]))
    begun = np.sort(trace.start[rows])
    begins = np.searchsorted(begun, steps.end[whole]) - np.searchsorted(begun, steps.start[whole])
    copied, busy = float((end - start).sum()), distinct(np.concatenate((worked(timeline), computing(timeline))))
    _, begin, stop = within(start, end, union(trace.start[busy], trace.end[busy]))
    alone = copied - float((stop - begin).sum())
    return timeline.host, float(begins.sum()) / count, round(copied / count), alone / total if total else 0.0


def computing(timeline: Timeline) -> Indices:
    """Rows of what devices do beside copies, sorted."""
    trace, copies = timeline.trace, timeline.is_kind(OpKind.COPY)
    lines = (trace.lines.every_row(i) for p in timeline.device_planes for i in timeline.device_lines(p))
    rows = np.concatenate([np.zeros(0, np.int64), *lines])
    return np.asarray(rows[~copies[trace.name[rows]]])

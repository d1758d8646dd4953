"""Time of a JAX program that no event of a step shows: builds on the training thread, and what runs
for it elsewhere.

JAX dispatches without waiting: threads of XLA (on a CPU) and devices work while the program goes
on, or waits. Wherever an op of the program runs within a step's time, the program computes for its
steps, whichever of them dispatched it; only where nothing runs, Python holds it up. The reference
counts what links reach, and only in the dispatching step's own time: the rest of it is "all others"
there.
"""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Indices, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.builds import find_jax_builds
from outpace.timeline.event_names import EventFlag
from outpace.timeline.xla_threads import find_hlo_events, has_jax_calls, host_mask
from outpace.trace.algorithms import distinct


def build_spans(timeline: Timeline) -> tuple[Indices, Picoseconds, Picoseconds]:
    """(row of the event that began it, start, end) of every program that was built."""
    found = find_jax_builds(timeline.trace)
    columns = ([b.row for b in found], [b.start for b in found], [b.end for b in found])
    row, start, end = (np.array(column, np.int64) for column in columns)
    return row, start, end


def xla_worker_rows(timeline: Timeline) -> Indices:
    """Rows of the events in which XLA's threads on the host ran an op, or waited in its executor
    for one.
    """
    trace = timeline.trace
    if not has_jax_calls(trace):
        return np.zeros(0, np.int64)
    rows = find_hlo_events(trace)
    return distinct(np.concatenate((rows[host_mask(trace, rows)], timeline.event_names.rows(EventFlag.THUNK_EXECUTOR))))

"""Time of a JAX program that no event of a step shows: builds on the training thread, and what runs for it elsewhere.

JAX dispatches without waiting: threads of XLA (on a CPU) and devices work while the program goes on, or waits. Wherever an op of the program
runs within a step's time, the program computes for its steps, whichever of them dispatched it; only where nothing runs, Python holds it up.
The reference counts what links reach, and only in the dispatching step's own time: the rest of it is "all others" there.
"""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Indices, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.builds import jax_builds
from outpace.timeline.names import Is
from outpace.timeline.workers import executed, on_host, runs_jax
from outpace.trace.algorithms import distinct


def builds(timeline: Timeline) -> tuple[Indices, Picoseconds, Picoseconds]:
    """(row of the event that began it, start, end) of every program that was built."""
    found = jax_builds(timeline.trace)
    columns = ([b.row for b in found], [b.start for b in found], [b.end for b in found])
    row, start, end = (np.array(column, np.int64) for column in columns)
    return row, start, end


def worked(timeline: Timeline) -> Indices:
    """Rows of the events in which XLA's threads on the host ran an op, or waited in its executor for one."""
    trace = timeline.trace
    if not runs_jax(trace):
        return np.zeros(0, np.int64)
    rows = executed(trace)
    return distinct(np.concatenate((rows[on_host(trace, rows)], timeline.names.rows(Is.THUNKS))))

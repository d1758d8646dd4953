# SPDX-License-Identifier: Apache-2.0
"""Time of a JAX program that no event of a step shows: builds on the training thread, and work on
other threads and devices.

JAX dispatches without waiting: threads of XLA (on a CPU) and devices work while the program goes
on, or waits. Wherever an op of the program runs within a step's time, the program computes for its
steps, whichever step dispatched it; only where nothing runs, Python delays it. The reference counts
only what links reach in the dispatching step's own time; the rest of that work is "all others"
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
    """Return (row of the event that began the build, start, end) of every program that was built;
    ps.
    """
    builds = find_jax_builds(timeline.trace)
    columns = ([build.row for build in builds], [build.start for build in builds], [build.end for build in builds])
    row, start, end = (np.array(column, np.int64) for column in columns)
    return row, start, end


def xla_worker_rows(timeline: Timeline) -> Indices:
    """Return the rows of events in which XLA's threads on the host ran an op, or waited in its
    executor.
    """
    trace = timeline.trace
    if not has_jax_calls(trace):
        return np.zeros(0, np.int64)
    rows = find_hlo_events(trace)
    return distinct(np.concatenate((rows[host_mask(trace, rows)], timeline.event_names.rows(EventFlag.THUNK_EXECUTOR))))

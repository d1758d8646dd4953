"""XLA's worker threads: which of their events belong to one run of a program.

A thread that takes a task over writes `ThreadpoolListener::StartRegion`, linked to the thread that
gave it, and `StopRegion` when it is done: what stands between belongs to the task, but is not
nested in either event. All events of one run of a program carry its `run_id`. (As the mutators for
thread pools and runs in `preprocess_xplane.cc` of openxla/xla do, which only some profilers apply
before they save.)
"""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Codes, Indices, Mask, Picoseconds
from outpace.timeline.event_names import EventFlag, event_names
from outpace.trace import Trace, dialect

_DERIVED = ("XLA", "Async", "Framework", "Source", "TensorFlow")  # lines of devices that say the same again, or in another way
_AGREE = 0.5  # of the ops that links put into the step in whose time they begin: with fewer, dozens of steps are in flight


def has_jax_calls(trace: Trace) -> bool:
    """Whether a JAX program was captured: TensorFlow's programs call no jitted function of it."""
    return bool(event_names(trace).mask(EventFlag.JAX_CALL).any())


def extend_to_regions(trace: Trace, subtree_end: Indices) -> Indices:
    """`subtree_end` of every event (one past its last descendant's row), where the start of a
    region also holds what runs until its end.
    """
    rows = event_names(trace).rows(EventFlag.REGION_START | EventFlag.REGION_STOP)
    if len(rows) == 0:
        return subtree_end
    starts = event_names(trace).mask(EventFlag.REGION_START)[trace.name[rows]]
    line = trace.line[rows].astype(np.int64)
    depth = np.cumsum(np.where(starts, 1, -1)) + ~starts  # that a region's start and its stop have alike; lines begin anywhere
    order = np.lexsort((rows, depth, line))
    one, other = order[:-1], order[1:]
    pairs = starts[one] & ~starts[other] & (line[one] == line[other]) & (depth[one] == depth[other])
    ends = subtree_end.copy()
    ends[rows[one[pairs]]] = rows[other[pairs]] + 1
    return ends


def find_execution_links(trace: Trace) -> tuple[Indices, Indices]:
    """(cause, effect) rows that tie together all events of one run of a program."""
    stat = trace.stat(dialect.RUN_ID)
    order = np.argsort(stat.uints, kind="stable")
    rows, same = stat.rows[order].astype(np.int32), np.diff(stat.uints[order]) == 0
    one, next_one = rows[:-1][same], rows[1:][same]
    return np.concatenate((one, next_one)), np.concatenate((next_one, one))


def find_hlo_events(trace: Trace) -> Indices:
    """Rows of the events that ran an HLO op and name it in a stat, sorted: kernels, and what XLA's
    worker threads ran on a CPU.

    A host's call that launches a kernel names the kernel's op too, and is none of them.
    """
    rows = trace.stat(dialect.HLO_OP).rows
    derived = np.fromiter((name.startswith(_DERIVED) for name in trace.lines.names), bool, len(trace.lines))
    rows = rows[~derived[trace.line[rows]]]
    launched = trace.stat(dialect.CORRELATION_ID).has_rows(rows)
    return np.asarray(rows[~(launched & host_mask(trace, rows))])


def host_mask(trace: Trace, rows: Indices) -> Mask:
    """Whether each event stands on a thread of the host; boolean."""
    host = np.fromiter((p.name.startswith(dialect.HOST_PREFIX) for p in trace.planes), bool, len(trace.planes))
    return np.asarray(host[trace.lines.plane[trace.line[rows]]])


def assign_by_time(trace: Trace, start: Picoseconds, end: Picoseconds, step_index: Codes, async_dispatch: bool) -> Codes:
    """`step_index` (step of every event, -1 none) with the host's ops that no link reaches given to
    the step in whose time [start, end) they begin.

    Where one linked op begins outside of its own step's time, several steps are in flight, and time
    says nothing; unless the steps are those of the work (`async_dispatch`), or links and time agree
    on few ops: then time alone says it.
    """
    rows = find_hlo_events(trace)
    rows = rows[host_mask(trace, rows)]
    if len(rows) == 0:
        return step_index
    at = np.searchsorted(start, trace.start[rows], side="right") - 1
    at = np.where(trace.start[rows] < end[np.maximum(at, 0)], at, -1)
    if async_dispatch:
        step_index[rows] = at
        return step_index
    known = step_index[rows] >= 0
    agree = known & (at == step_index[rows])
    if np.any(known & ~agree):
        if agree.mean() < _AGREE:
            step_index[rows] = at
        return step_index
    step_index[rows] = np.where(known, step_index[rows], at)
    return step_index

# SPDX-License-Identifier: Apache-2.0
"""Events of XLA's worker threads: which of them belong to one run of a program.

A thread that begins a task writes `ThreadpoolListener::StartRegion`, linked to the thread that
submitted the task, and `StopRegion` at its end. The events between the two belong to the task, but
are not nested in either event. All events of one run of a program have its `run_id`. The rules
follow the mutators for thread pools and runs in `preprocess_xplane.cc` of openxla/xla, which only
some profilers apply before they save.
"""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Codes, Indices, Mask, Picoseconds
from outpace.timeline.event_names import EventFlag, event_names
from outpace.trace import Trace, dialect

_DERIVED = ("XLA", "Async", "Framework", "Source", "TensorFlow")  # prefixes of device lines that repeat other lines
_AGREE = 0.5  # minimum share of linked ops that begin in the time of their step; below it, dozens of steps are in flight


def has_jax_calls(trace: Trace) -> bool:
    """Whether a JAX program was captured: a TensorFlow program calls no jitted function of JAX."""
    return bool(event_names(trace).mask(EventFlag.JAX_CALL).any())


def extend_to_regions(trace: Trace, subtree_end: Indices) -> Indices:
    """Return `subtree_end` (one past the last row below every event) with the start of a region
    extended to the region's end.
    """
    rows = event_names(trace).rows(EventFlag.REGION_START | EventFlag.REGION_STOP)
    if len(rows) == 0:
        return subtree_end
    starts = event_names(trace).mask(EventFlag.REGION_START)[trace.name[rows]]
    line = trace.line[rows].astype(np.int64)
    # A region's start and stop get equal depths, whatever the depth is at the beginning of a line
    depth = np.cumsum(np.where(starts, 1, -1)) + ~starts
    order = np.lexsort((rows, depth, line))
    one, other = order[:-1], order[1:]
    pairs = starts[one] & ~starts[other] & (line[one] == line[other]) & (depth[one] == depth[other])
    ends = subtree_end.copy()
    ends[rows[one[pairs]]] = rows[other[pairs]] + 1
    return ends


def find_execution_links(trace: Trace) -> tuple[Indices, Indices]:
    """Return (cause, effect) rows that link all events of one run of a program."""
    stat = trace.stat(dialect.RUN_ID)
    order = np.argsort(stat.uints, kind="stable")
    rows, same = stat.rows[order].astype(np.int32), np.diff(stat.uints[order]) == 0
    one, next_one = rows[:-1][same], rows[1:][same]
    return np.concatenate((one, next_one)), np.concatenate((next_one, one))


def find_hlo_events(trace: Trace) -> Indices:
    """Return the sorted rows of events that executed an HLO op and name it in a stat: kernels, and
    events of XLA's worker threads on a CPU.

    A call of the host that launches a kernel names the kernel's op too; it is left out.
    """
    rows = trace.stat(dialect.HLO_OP).rows
    derived = np.fromiter((name.startswith(_DERIVED) for name in trace.lines.names), bool, len(trace.lines))
    rows = rows[~derived[trace.line[rows]]]
    launched = trace.stat(dialect.CORRELATION_ID).has_rows(rows)
    return np.asarray(rows[~(launched & host_mask(trace, rows))])


def host_mask(trace: Trace, rows: Indices) -> Mask:
    """Return a boolean per event: whether it is on a thread of the host."""
    host = np.fromiter((p.name.startswith(dialect.HOST_PREFIX) for p in trace.planes), bool, len(trace.planes))
    return np.asarray(host[trace.lines.plane[trace.line[rows]]])


def assign_by_time(trace: Trace, start: Picoseconds, end: Picoseconds, step_index: Codes, async_dispatch: bool) -> Codes:
    """Return `step_index` (step of every event, -1 for none) with the host's unlinked ops assigned
    to the step in whose time [start, end) they begin.

    Where a linked op begins outside of its own step's time, several steps are in flight, and
    unlinked ops stay unassigned. All ops are assigned by time where steps are those of the work
    (`async_dispatch`), or where links and time agree for less than half of the ops.
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
    is_linked = step_index[rows] >= 0
    agree = is_linked & (at == step_index[rows])
    if np.any(is_linked & ~agree):
        if agree.mean() < _AGREE:
            step_index[rows] = at
        return step_index
    step_index[rows] = np.where(is_linked, step_index[rows], at)
    return step_index

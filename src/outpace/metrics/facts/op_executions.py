# SPDX-License-Identifier: Apache-2.0
"""How often device ops ran: an op that launches several kernels ran once.

Consecutive kernels of one op on a stream form a run. Where the profiler linked each launch to the
host's op, a run counts as many executions as host ops launched it; elsewhere as many as its rarest
kernel occurs (A B A B is two executions of an op that launches A and B; A A A is three). The
reference (`DeviceTfOpMetricsDbBuilder`) counts the kernel that occurs most often in the whole
capture: the result is the same unless an op launches one kernel twice, or two instructions of a
program come from one op.
"""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Codes, Indices, Numbers
from outpace.timeline import OpKind, Timeline
from outpace.trace.algorithms import distinct, intersect_indices, union_rows

_NESTED = 8  # maximum nesting of launch calls


# Rows of kernels, sorted; row of the host's op that launched each, -1 where it is unknown.
LaunchingOps = tuple[Indices, Indices]


def count_executions(timeline: Timeline, rows: Indices, op_index: Codes, launchers: LaunchingOps) -> Numbers:
    """Return how many executions of an op begin with each kernel, int64; an op's sum is its count.

    rows: event rows of the kernels, sorted
    op_index: op of each kernel, int64
    launchers: result of `launching_ops`
    """
    begun = np.zeros(len(rows), np.int64)
    if len(rows) == 0:
        return begun
    trace = timeline.trace
    line = trace.line[rows]
    first = np.flatnonzero((np.diff(line, prepend=-1) != 0) | (np.diff(op_index, prepend=op_index[0] - 1) != 0))
    run = np.repeat(np.arange(len(first)), np.diff(first, append=len(rows)))
    begun[first] = _rarest(run, trace.name[rows].astype(np.int64))
    launcher = np.full(len(rows), -1, np.int64)
    at, place = intersect_indices(rows, launchers[0])
    launcher[at] = launchers[1][place]
    is_known = np.ones(len(first), bool)
    is_known[run[launcher < 0]] = False
    begun[first[is_known]] = _distinct(run, launcher, len(first))[is_known]
    return begun


def _rarest(run: Codes, name: Codes) -> Numbers:
    """Return the number of occurrences of each run's rarest name."""
    span = int(name.max()) + 1
    pairs = np.sort(run * span + name)
    starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    count = np.diff(starts, append=len(pairs))
    of_run = pairs[starts] // span
    least: Numbers = np.minimum.reduceat(count, np.flatnonzero(np.diff(of_run, prepend=-1)))
    return least


def _distinct(run: Codes, value: Indices, runs: int) -> Numbers:
    """Return the number of distinct values in each run."""
    span = int(value.max()) + 2
    return np.bincount(distinct(run * span + value + 1) // span, minlength=runs)


def launching_ops(timeline: Timeline) -> LaunchingOps:
    """Return the host's op that launched each kernel: the op on the thread of the launch, at that
    time.
    """
    trace = timeline.trace
    cause, kernels = timeline.launches
    if len(cause) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    calls = distinct(cause).astype(np.int64)
    is_op = timeline.op_kind_mask(OpKind.TENSORFLOW, OpKind.JAX)
    inside = union_rows(calls, *(trace.find_rows_by_mask(is_op, trace.rows_of(plane)) for plane in timeline.host_planes))
    parent, _ = trace.compute_nesting(inside)
    above = np.where(parent >= 0, np.searchsorted(inside, parent), -1)
    op = is_op[trace.name[inside]]
    for _ in range(_NESTED):  # a launch call may be nested in another one: go up to the op
        still = np.flatnonzero((above >= 0) & ~op[above])
        if len(still) == 0:
            break
        above[still] = above[above[still]]
    up = above[np.searchsorted(inside, cause)]
    return kernels, np.where(up >= 0, inside[up], -1)

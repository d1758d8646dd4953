"""How often device ops ran: an op that takes several kernels ran once.

Kernels that follow each other on a stream for one op form a run. Where the profiler tied each launch to the host's op, a run stands for as many
executions as host ops launched it; elsewhere for as many as its rarest kernel appears (A B A B is two executions of an op that takes A and
B; A A A are three). The reference (`DeviceTfOpMetricsDbBuilder`) counts the kernel that appears most often in the whole capture: the same
unless an op launches one kernel twice, or two instructions of a program come from one op.
"""

from __future__ import annotations

import numpy as np

from outpace.timeline import OpKind, Timeline
from outpace.timeline.causality import launches
from outpace.timeline.steps import Array
from outpace.trace.algorithms import distinct, nest_rows


def executions(timeline: Timeline, rows: Array, key: Array) -> Array:
    """How many executions begin with each of the kernels at `rows` (sorted) of the ops `key` (int64); an op's sum is its count."""
    begun = np.zeros(len(rows), np.int64)
    if len(rows) == 0:
        return begun
    trace = timeline.trace
    line = trace.line[rows]
    first = np.flatnonzero((np.diff(line, prepend=-1) != 0) | (np.diff(key, prepend=key[0] - 1) != 0))
    run = np.repeat(np.arange(len(first)), np.diff(first, append=len(rows)))
    begun[first] = _rarest(run, trace.name[rows].astype(np.int64))
    launcher = _launchers(timeline, rows)
    known = np.ones(len(first), bool)
    known[run[launcher < 0]] = False
    begun[first[known]] = _distinct(run, launcher, len(first))[known]
    return begun


def _rarest(run: Array, name: Array) -> Array:
    """How often the rarest name appears in each run."""
    span = int(name.max()) + 1
    pairs = np.sort(run * span + name)
    starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    count = np.diff(starts, append=len(pairs))
    of_run = pairs[starts] // span
    least: Array = np.minimum.reduceat(count, np.flatnonzero(np.diff(of_run, prepend=-1)))
    return least


def _distinct(run: Array, value: Array, runs: int) -> Array:
    """How many distinct values each run has."""
    span = int(value.max()) + 2
    return np.bincount(distinct(run * span + value + 1) // span, minlength=runs)


def _launchers(timeline: Timeline, rows: Array) -> Array:
    """Row of the host op whose thread launched each kernel, -1 where it is not known; int64."""
    trace = timeline.trace
    found = np.full(len(rows), -1, np.int64)
    cause, effect = launches(trace)
    if len(cause) == 0:
        return found
    is_op = timeline.is_kind(OpKind.TENSORFLOW, OpKind.JAX)[trace.name]
    for plane in timeline.trace.planes_like("/device:"):
        is_op[trace.rows_of(plane)] = False
    calls = distinct(cause).astype(np.int64)
    inside = distinct(np.concatenate((np.flatnonzero(is_op), calls)))
    parent, _ = nest_rows(trace.lines.first_event, trace.start, trace.duration, inside)
    above = np.full(len(trace), -1, np.int64)
    above[inside] = parent
    for _ in range(8):  # a launch call may stand in another one: up to the op
        still = np.flatnonzero((above >= 0) & ~is_op[np.maximum(above, 0)])
        if len(still) == 0:
            break
        above[still] = above[above[still]]
    at = np.searchsorted(rows, effect)
    hit = (at < len(rows)) & (rows[np.minimum(at, len(rows) - 1)] == effect)
    found[at[hit]] = above[cause[hit]]
    return found

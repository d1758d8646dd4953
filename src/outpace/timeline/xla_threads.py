# SPDX-License-Identifier: Apache-2.0
"""Events of XLA's worker threads: which of them belong to one run of a program.

A thread that begins a task writes `ThreadpoolListener::StartRegion`, linked to the thread that
submitted the task, and `StopRegion` at its end. The events between the two belong to the task, but
are not nested in either event. All events of one run of a program have its `run_id`. The rules
follow the mutators for thread pools and runs in `preprocess_xplane.cc` of openxla/xla, which only
some profilers apply before they save.

Some ops go on after their event, since several threads compute them: a convolution, a matrix
product, a loop divided among threads. The event of such an op ends where its tasks are submitted,
and the tasks record no events. The thread that completes the last one runs the ops that waited for
the op, without a pause, and then writes a mark with the op's name (`end: convolution.2`). So an op
ends where that begins, or at the mark where no op waited; and before the same op begins again.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.model.arrays import Codes, Indices, Mask, Picoseconds, Values
from outpace.timeline.event_names import THUNK_END_PREFIX, EventFlag, event_names
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import distinct, divide_time, union_rows

_DERIVED = ("XLA", "Async", "Framework", "Source", "TensorFlow")  # prefixes of device lines that repeat other lines
_PROMPT = 20e6  # pause between two events of a thread up to which one leads to the other, ps: some microseconds are usual
_RESUMED = 5e9  # time within which a thread that lost its core has one again, ps: a few time slices
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
    rows = rows[~derived_line_mask(trace)[trace.line[rows]]]
    launched = trace.stat(dialect.CORRELATION_ID).has_rows(rows)
    return np.asarray(rows[~(launched & host_mask(trace, rows))])


def derived_line_mask(trace: Trace) -> Mask:
    """Return a boolean per line: whether it repeats what other lines of its device have."""
    return np.fromiter((name.startswith(_DERIVED) for name in trace.lines.names), bool, len(trace.lines))


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


@dataclass(frozen=True, eq=False)
class Continuations:
    """What ops did after their events: one array entry per op, by event row.

    row: event row of the op
    start, end: from the end of its event to the end of the op, ps
    """

    row: Indices
    start: Picoseconds
    end: Picoseconds

    def lengths(self, rows: Indices) -> Picoseconds:
        """Return how long the op of each event of `rows` (distinct) went on after it, ps."""
        lengths = np.zeros(len(rows), np.int64)
        _, at, place = np.intersect1d(rows, self.row, assume_unique=True, return_indices=True)
        lengths[at] = (self.end - self.start)[place]
        return lengths

    def divide_time(self, start: Picoseconds, end: Picoseconds, parent: Indices, waits: Mask) -> tuple[Values, Values, Values]:
        """Return the result of `algorithms.divide_time` for the ops of some events: each with what
        it did after its event. `row` must hold positions in these arrays, not event rows.
        """
        count = len(start)
        spans = np.concatenate((start, self.start)), np.concatenate((end, self.end))
        own, alone, sums = divide_time(*spans, np.append(parent, np.full(len(self.row), -1)), np.append(waits, self.row < 0))
        for values in (own, alone):
            values[self.row] += values[count:]
        return own[:count], alone[:count], sums

    def of_rows(self, rows: Indices) -> Continuations:
        """Return the continuations of the ops of some events."""
        return self.select(np.isin(self.row, rows))

    def select(self, mask: Mask) -> Continuations:
        """Return the continuations for which a mask is true."""
        return Continuations(self.row[mask], self.start[mask], self.end[mask])


NO_CONTINUATIONS = Continuations(*(np.zeros(0, np.int64),) * 3)


@memoize
def find_continuations(trace: Trace) -> Continuations:
    """Return what ops on the host's threads did after their events."""
    marks = event_names(trace).rows(EventFlag.THUNK_END)
    if not len(marks):
        return NO_CONTINUATIONS
    ops = find_hlo_events(trace)
    ops = ops[host_mask(trace, ops)]
    named = _named_ops(trace, marks)
    before, ends = _find_chains(trace, marks, ops)
    is_own = (before >= 0) & (trace.name[np.maximum(before, 0)] == named)
    of = np.where(is_own, before, -1)
    ends = np.where(is_own, trace.start[marks], ends)
    for name in distinct(named[~is_own & (named >= 0)]).tolist():
        places = np.flatnonzero(~is_own & (named == name))
        left = ops[trace.name[ops] == name]
        of[places] = _match(trace, left[np.isin(left, of, invert=True)], trace.start[marks[places]])
    found = of >= 0
    order = np.argsort(of[found], kind="stable")
    row, end = of[found][order], ends[found][order]
    # The same op begins again only when it has ended: a mark that comes later is another run's.
    end = np.minimum(end, _next_starts(trace, ops)[np.searchsorted(ops, row)])
    start = trace.end[row]
    return Continuations(row, start, end).select(end - start > _PROMPT)


def _named_ops(trace: Trace, marks: Indices) -> Codes:
    """Return the number of the event name of the op that each mark names; -1 where no event has
    it.
    """
    code_of = {text: code for code, text in enumerate(trace.names)}
    codes = trace.name[marks].astype(np.int64)
    texts = {code: trace.names[code].removeprefix(THUNK_END_PREFIX) for code in distinct(codes).tolist()}
    return np.array([code_of.get(texts[code], -1) for code in codes.tolist()], np.int64)


def _find_chains(trace: Trace, marks: Indices, ops: Indices) -> tuple[Indices, Picoseconds]:
    """Return, of each mark, (row of the op right before it on its thread, -1 for none; start of
    what its thread ran without a pause until the mark, ps).

    What a thread runs without a pause before the mark is what waited for the op; an executor right
    before the mark ran it, even where the thread then lost its core for a while.
    """
    executors = event_names(trace).rows(EventFlag.THUNK_EXECUTOR)
    rows = union_rows(marks, ops, executors)
    parent = trace.compute_nesting(rows)[0]
    around = np.where(parent >= 0, parent, -1 - trace.line[rows].astype(np.int64))  # on each thread apart
    order = np.lexsort((rows, around))
    start, end = trace.start[rows][order], trace.end[rows][order]
    is_mark, ran = np.isin(rows[order], marks), np.isin(rows[order], executors)
    stands_still = start[1:] - end[:-1] > np.where(is_mark[1:] & ran[:-1], _RESUMED, _PROMPT)
    pause = np.append(True, stands_still | (np.diff(around[order]) != 0))
    first = np.maximum.accumulate(np.where(pause, np.arange(len(order)), 0))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    at = place[np.searchsorted(rows, marks)]
    is_op = np.isin(rows[order], ops)
    has_before = (at > 0) & (around[order][at] == around[order][np.maximum(at - 1, 0)])
    before = np.where(has_before & is_op[np.maximum(at - 1, 0)], rows[order][np.maximum(at - 1, 0)], -1)
    return before, start[first[at]]


def _match(trace: Trace, ops: Indices, marks: Picoseconds) -> Indices:
    """Return, of each mark of an op of one name, by its time, the op's row: the last one that began
    before it and has no other mark; -1 for none. The ops are sorted by row.
    """
    by_start = ops[np.argsort(trace.start[ops], kind="stable")].tolist()
    starts = trace.start[np.array(by_start, np.int64)].tolist() if by_start else []
    matched = np.full(len(marks), -1, np.int64)
    for place in np.argsort(marks, kind="stable").tolist():
        at = bisect_left(starts, int(marks[place])) - 1
        if at >= 0:
            matched[place] = by_start.pop(at)
            del starts[at]
    return matched


def _next_starts(trace: Trace, ops: Indices) -> Picoseconds:
    """Return when the next event of the same op begins after each, ps; the largest int64 for
    none.
    """
    name, start = trace.name[ops].astype(np.int64), trace.start[ops]
    order = np.lexsort((start, name))
    following = np.full(len(ops), np.iinfo(np.int64).max)
    same = np.diff(name[order]) == 0
    following[order[:-1][same]] = start[order[1:][same]]
    return following

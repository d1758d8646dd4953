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
the op (`ThunkExecutor::Execute`), and then writes a mark with the op's name (`end: convolution.2`).
So an op ends where the executor begins whose end the mark follows directly, or at the mark where no
op waited.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.model.arrays import Codes, Indices, Mask, Picoseconds
from outpace.timeline.event_names import THUNK_END_PREFIX, EventFlag, event_names
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
    rows = find_hlo_events(trace) if len(marks) else marks
    rows = rows[host_mask(trace, rows)]
    if not len(rows):
        return NO_CONTINUATIONS
    of = _find_ops(trace, marks, rows)
    marks, of = marks[of >= 0], of[of >= 0]
    begun = trace.end[of]
    end = np.maximum(_find_ends(trace, marks, begun), begun)
    order = np.argsort(of, kind="stable")
    found = Continuations(of[order], begun[order], end[order])
    _, first = np.unique(found.row, return_index=True)
    return found.select(np.isin(np.arange(len(order)), first) & (found.end > found.start))


def _find_ops(trace: Trace, marks: Indices, rows: Indices) -> Indices:
    """Return, for each mark, the row of the op that it names and that began last before it; -1 for
    none. `rows`: events of ops.
    """
    code_of = {text: code for code, text in enumerate(trace.names)}
    names = event_names(trace).mask(EventFlag.THUNK_END)
    renamed = np.arange(len(trace.names))
    for code in np.flatnonzero(names).tolist():
        renamed[code] = code_of.get(trace.names[code].removeprefix(THUNK_END_PREFIX), -1)
    name = np.concatenate((trace.name[rows].astype(np.int64), renamed[trace.name[marks]]))
    start = np.concatenate((trace.start[rows], trace.start[marks]))
    is_mark = np.repeat([False, True], [len(rows), len(marks)])
    order = np.lexsort((is_mark, start, name))  # an op before its mark, which may begin at the same time
    last = np.maximum.accumulate(np.where(is_mark[order], -1, np.arange(len(order))))
    found = np.where((last >= 0) & (name[order[last]] == name[order]), order[last], -1)
    of = np.empty(len(order), np.int64)
    of[order] = found
    places = of[len(rows) :]
    return np.where(places >= 0, rows[places], -1)


def _find_ends(trace: Trace, marks: Indices, begun: Picoseconds) -> Picoseconds:
    """Return when the op of each mark ended, ps. `begun`: when its event ended, ps.

    Of nested executors that the mark follows, the outermost that began after the event counts.
    """
    ends = trace.start[marks]
    executors = event_names(trace).rows(EventFlag.THUNK_EXECUTOR)
    follower = trace.compute_subtree_ends(executors)
    order = np.argsort(follower, kind="stable")  # those with one follower by row, and so the outermost first
    low, high = (np.searchsorted(follower[order], marks, side=side) for side in ("left", "right"))
    for at in np.flatnonzero(low < high).tolist():
        starts = trace.start[executors[order[low[at] : high[at]]]]
        after = starts[starts >= begun[at]]
        if len(after):
            ends[at] = after[0]
    return ends

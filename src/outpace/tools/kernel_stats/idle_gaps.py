"""When no stream of a device is busy, and what the host does meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.kernel_names import kernel_function_name
from outpace.metrics.spans import merge_sorted_spans
from outpace.model import Table
from outpace.model.arrays import Indices, Numbers, Picoseconds
from outpace.timeline import OpKind, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.tools.kernel_stats.activity import Activity, find_innermost
from outpace.tools.kernel_stats.device import Device
from outpace.tools.kernel_stats.launches import find_launch_rows
from outpace.tools.kernel_stats.schema import CAUSES, GAPS
from outpace.trace import dialect
from outpace.trace.algorithms import aggregate_by_key, distinct

NO_ACTIVITY, LAUNCHING = "(nothing recorded)", "(launching a kernel)"
_SHOWN = 50
_FRAMEWORKS = ~(
    EventFlag.PYTHON_FRAME | EventFlag.PYTHON_THREAD | EventFlag.ANY_WAIT
)  # whatever else a name can be, a framework chose it
_API_LINES = "Host Threads/"  # where CUPTI and rocprofiler put the launch calls when they know the thread only by its number


@dataclass(frozen=True, eq=False)
class IdleGaps:
    """The idle gaps of a device that ran kernels, in order of time; ps.

    `next_rows`: row of the event that ended the gap; `launch_start`, `launch_line`: start and
    thread of the call that launched it (-1 where not known); `activity_rows`: row of the host event
    that stands for what the host did, -1 for nothing.
    """

    device: Device
    span: tuple[int, int]
    start: Picoseconds
    end: Picoseconds
    next_rows: Indices
    launch_start: Picoseconds
    launch_line: Indices
    activity_rows: Indices

    @property
    def duration(self) -> Picoseconds:
        """Length of every gap."""
        return self.end - self.start

    @property
    def unlaunched_ps(self) -> float:
        """Idle time before the launch of the work that ended it began; NaN if no launch
        is known.
        """
        known = self.launch_start >= 0
        late = np.clip(self.launch_start - self.start, 0, self.duration)[known]
        return float(late.sum()) if known.any() else float("nan")


def find_idle_gaps(device: Device) -> IdleGaps:
    """Find the gaps of one device, and what the host did in each."""
    trace, rows = device.trace, device.busy_rows
    start, end = merge_sorted_spans(trace.start[rows], trace.end[rows])
    from_, to = end[:-1], start[1:]
    after = rows[np.searchsorted(trace.start[rows], to)]
    by_row = np.argsort(after, kind="stable")
    calls = np.full(len(after), -1, np.int64)
    calls[by_row] = find_launch_rows(device, after[by_row])
    called = np.where(calls >= 0, trace.start[np.maximum(calls, 0)], -1)
    span = (int(start[0]), int(end[-1])) if len(start) else (0, 0)
    caller = np.where(calls >= 0, trace.line[np.maximum(calls, 0)], -1)
    return IdleGaps(device, span, from_, to, after, called, caller, find_activities(device.timeline, from_, to, caller))


def find_activities(timeline: Timeline, start: Picoseconds, end: Picoseconds, launch_line: Indices) -> Indices:
    """Row of the host event that covers most of each gap, -1 for none.

    First on the thread that launched what ended the gap; where that thread is not known, or had
    nothing to do, among all threads: ops before other events, these before events that only wait,
    then the one that covers more.
    """
    trace = timeline.trace
    found = np.full(len(start), -1, np.int64)
    for line in distinct(launch_line[launch_line >= 0]).tolist():
        mine = np.flatnonzero(launch_line == line)
        found[mine] = find_innermost(trace, line, start[mine], end[mine]).rows
    open_ = np.flatnonzero(found < 0)
    if len(open_) == 0:
        return found
    standing = _standing(timeline)
    best = Activity(np.full(len(open_), -1, np.int64), np.zeros(len(open_), np.int64))
    for line in _threads(timeline):
        best = best.merge(find_innermost(trace, line, start[open_], end[open_]), lambda row: standing[trace.name[row]])
    found[open_] = best.rows
    return found


@memoize
def _threads(timeline: Timeline) -> list[int]:
    """Lines of the host on which it says what it does."""
    lines = (line for plane in timeline.host_planes for line in plane.lines)
    return [line for line in lines if not timeline.trace.lines.names[line].startswith(_API_LINES)]


@memoize
def _standing(timeline: Timeline) -> Numbers:
    """How well an event explains an idle device, by its name: 2 for an op, 0 for one that waits, 1
    for any other.
    """
    waits = timeline.event_names.mask(EventFlag.ANY_WAIT)
    is_op = timeline.op_kind_mask(OpKind.TENSORFLOW, OpKind.TF_DATA, OpKind.JAX)
    return np.where(waits, 0, np.where(is_op, 2, 1))


def activity_namer(device: Device) -> Callable[[int], str]:
    """What to call a host event of a name (-1: none): TensorFlow 2.3/2.4 name a launch call after
    the kernel that it launches.
    """
    names = device.trace.names
    kernels = {names[at] for at in distinct(device.trace.name[device.kernel_rows]).tolist()}
    return lambda name: NO_ACTIVITY if name < 0 else LAUNCHING if names[name] in kernels else names[name]


def step_mark_rows(timeline: Timeline) -> Indices:
    """Rows of the marks of steps, sorted: they say nothing of what the host did."""
    return timeline.trace.stat(dialect.STEP_NUM).rows.astype(np.int64)


def is_user_annotation(timeline: Timeline, row: int) -> bool:
    """Whether a host event is an annotation of the program's own: no framework's, and inside of no
    other event than such and steps' marks.
    """
    trace, known = timeline.trace, timeline.event_names
    of_steps = set(step_mark_rows(timeline).tolist())
    others = known.mask(_FRAMEWORKS) | timeline.op_kind_mask(OpKind.TENSORFLOW, OpKind.TF_DATA, OpKind.JAX, OpKind.COPY)
    while row >= 0:
        name = trace.name[row]
        if row not in of_steps and not known.mask(EventFlag.PYTHON_FRAME)[name] and (others[name] or "::" in trace.names[name]):
            return False
        row = int(trace.parent[row])
    return True


def compute_idle_gaps(gaps_by_device: list[IdleGaps]) -> Table:
    """The longest gaps of all devices."""
    rows = []
    for gaps in gaps_by_device:
        trace, timeline, said = gaps.device.trace, gaps.device.timeline, activity_namer(gaps.device)
        for i in np.argsort(-gaps.duration, kind="stable")[:_SHOWN].tolist():
            after, row = int(gaps.next_rows[i]), int(gaps.activity_rows[i])
            step = int(timeline.step_index[after])
            number = float(timeline.steps.number[step]) if step >= 0 else float("nan")
            did, thread = (said(int(trace.name[row])), trace.lines.titles[trace.line[row]]) if row >= 0 else (NO_ACTIVITY, "")
            when = (int(gaps.start[i]) - timeline.zero_ps, int(gaps.duration[i]))
            rows.append(
                (*when, number, kernel_function_name(trace.names[trace.name[after]]), did, thread, *gaps.device.device_and_host)
            )
    rows.sort(key=lambda r: -r[1])
    return Table.from_rows("idle", f"Longest idle gaps (at most {_SHOWN})", GAPS, rows[:_SHOWN])


def compute_idle_causes(gaps_by_device: list[IdleGaps]) -> Table:
    """Idle time by what the host did, longest first."""
    rows = []
    for gaps in gaps_by_device:
        trace, said, whole = gaps.device.trace, activity_namer(gaps.device), int(gaps.duration.sum())
        name = np.where(gaps.activity_rows >= 0, trace.name[np.maximum(gaps.activity_rows, 0)], -1)
        names = distinct(name)
        count, total, *_ = aggregate_by_key(np.searchsorted(names, name), len(names), gaps.duration, gaps.duration)
        sums: dict[str, list[int]] = {}
        for code, times, length in zip(names.tolist(), count.tolist(), total.tolist(), strict=True):
            known = sums.setdefault(said(code), [0, 0])
            known[:] = [known[0] + times, known[1] + length]
        rows += [(did, times, length, length / whole, *gaps.device.device_and_host) for did, (times, length) in sums.items()]
    rows.sort(key=lambda r: (-r[2], r[0], r[4]))
    return Table.from_rows("idle_causes", "What the host did while the device was idle", CAUSES, rows)

# SPDX-License-Identifier: Apache-2.0
"""Idle gaps of a device, in which no stream is busy, and what the host does during them."""

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
from outpace.tools.kernel_stats.device import Device, sum_by_code
from outpace.tools.kernel_stats.launches import find_launch_rows
from outpace.tools.kernel_stats.schema import CAUSES, GAPS, MAX_GAPS
from outpace.trace import dialect
from outpace.trace.algorithms import distinct

NO_ACTIVITY, LAUNCHING = "(nothing recorded)", "(launching a kernel)"
# Flags of names that a framework chose: all but those of Python frames, threads and waits.
_FRAMEWORKS = ~(EventFlag.PYTHON_FRAME | EventFlag.PYTHON_THREAD | EventFlag.ANY_WAIT)
# Prefix of the lines on which CUPTI and rocprofiler record launch calls of threads that they know
# only by number.
_API_LINES = "Host Threads/"


@dataclass(frozen=True, eq=False)
class IdleGaps:
    """The idle gaps of a device that ran kernels, in order of time; arrays have one item per gap.

    device: the device
    span: start of its first and end of its last event, ps
    start, end: bounds of the gap, ps
    next_rows: row of the event that ended the gap
    launch_start: start of the call that launched that event, ps; -1 where not known
    launch_line: thread of that call; -1 where not known
    activity_rows: row of the host event that represents what the host did; -1 for none
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
        """Length of every gap, ps."""
        return self.end - self.start

    @property
    def unlaunched_ps(self) -> float:
        """Idle time before the launch of the work that ended each gap, summed, ps; NaN if no launch
        is known.
        """
        is_launched = self.launch_start >= 0
        late = np.clip(self.launch_start - self.start, 0, self.duration)[is_launched]
        return float(late.sum()) if is_launched.any() else float("nan")


def find_idle_gaps(device: Device) -> IdleGaps:
    """Return the idle gaps of one device, with what the host did in each."""
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
    """Return the row of the host event that covers most of each gap; -1 for none.

    The thread that launched the work after the gap is searched first. Where that thread is not
    known or has no event, all threads are searched: ops win over other events, other events win
    over events that only wait, and then the event that covers more wins.

    start, end: bounds of the gaps, ps
    launch_line: thread of the launch; -1 where not known
    """
    trace = timeline.trace
    activity_rows = np.full(len(start), -1, np.int64)
    for line in distinct(launch_line[launch_line >= 0]).tolist():
        gaps = np.flatnonzero(launch_line == line)
        activity_rows[gaps] = find_innermost(trace, line, start[gaps], end[gaps]).rows
    unexplained = np.flatnonzero(activity_rows < 0)
    if len(unexplained) == 0:
        return activity_rows
    standing = _priorities(timeline)
    best = Activity(np.full(len(unexplained), -1, np.int64), np.zeros(len(unexplained), np.int64))
    for line in _threads(timeline):
        best = best.merge(
            find_innermost(trace, line, start[unexplained], end[unexplained]), lambda row: standing[trace.name[row]]
        )
    activity_rows[unexplained] = best.rows
    return activity_rows


@memoize
def _threads(timeline: Timeline) -> list[int]:
    """Return the host's lines with events of its own, without the profiler's lines of API calls."""
    lines = (line for plane in timeline.host_planes for line in plane.lines)
    return [line for line in lines if not timeline.trace.lines.names[line].startswith(_API_LINES)]


@memoize
def _priorities(timeline: Timeline) -> Numbers:
    """Return by event name how well an event explains an idle device: 2 for an op, 0 for a wait, 1
    for any other.
    """
    waits = timeline.event_names.mask(EventFlag.ANY_WAIT)
    is_op = timeline.op_kind_mask(OpKind.TENSORFLOW, OpKind.TF_DATA, OpKind.JAX)
    return np.where(waits, 0, np.where(is_op, 2, 1))


def activity_namer(device: Device) -> Callable[[int], str]:
    """Return a function that names a host activity by its name index (-1: none).

    TensorFlow 2.3 and 2.4 name a launch call after the kernel that it launches; such a call is
    named "(launching a kernel)".
    """
    names = device.trace.names
    kernels = {names[at] for at in distinct(device.trace.name[device.kernel_rows]).tolist()}
    return lambda name: NO_ACTIVITY if name < 0 else LAUNCHING if names[name] in kernels else names[name]


def step_mark_rows(timeline: Timeline) -> Indices:
    """Return the sorted rows of the step marks, which do not tell what the host did."""
    return timeline.trace.stat(dialect.STEP_NUM).rows.astype(np.int64)


def is_user_annotation(timeline: Timeline, row: int) -> bool:
    """Whether a host event is an annotation of the program's own.

    That is the case if no framework made it, and it lies only inside other such annotations, Python
    functions and step marks.
    """
    trace, event_names = timeline.trace, timeline.event_names
    of_steps = set(step_mark_rows(timeline).tolist())
    is_framework = event_names.mask(_FRAMEWORKS) | timeline.op_kind_mask(
        OpKind.TENSORFLOW, OpKind.TF_DATA, OpKind.JAX, OpKind.COPY
    )
    while row >= 0:
        name = trace.name[row]
        if (
            row not in of_steps
            and not event_names.mask(EventFlag.PYTHON_FRAME)[name]
            and (is_framework[name] or "::" in trace.names[name])
        ):
            return False
        row = int(trace.parent[row])
    return True


def compute_idle_gaps(gaps_by_device: list[IdleGaps]) -> Table:
    """Return `GAPS`: the longest gaps of all devices."""
    rows = []
    for gaps in gaps_by_device:
        trace, timeline, name_activity = gaps.device.trace, gaps.device.timeline, activity_namer(gaps.device)
        for i in np.argsort(-gaps.duration, kind="stable")[:MAX_GAPS].tolist():
            after, row = int(gaps.next_rows[i]), int(gaps.activity_rows[i])
            step = int(timeline.step_index[after])
            number = float(timeline.steps.number[step]) if step >= 0 else float("nan")
            did, thread = (
                (name_activity(int(trace.name[row])), trace.lines.titles[trace.line[row]]) if row >= 0 else (NO_ACTIVITY, "")
            )
            gap = GAPS.row(
                gaps.device.place,
                start_ps=int(gaps.start[i]) - timeline.zero_ps,
                length_ps=int(gaps.duration[i]),
                step=number,
                next=kernel_function_name(trace.names[trace.name[after]]),
                host_activity=did,
                thread=thread,
            )
            rows.append(gap)
    rows.sort(key=lambda gap: -gap["length_ps"])
    return GAPS.build(rows[:MAX_GAPS])


def compute_idle_causes(gaps_by_device: list[IdleGaps]) -> Table:
    """Return `CAUSES`: idle time by what the host did, longest first."""
    rows = []
    for gaps in gaps_by_device:
        trace, name_activity, whole = gaps.device.trace, activity_namer(gaps.device), int(gaps.duration.sum())
        name = np.where(gaps.activity_rows >= 0, trace.name[np.maximum(gaps.activity_rows, 0)], -1)
        times = (
            {"host_activity": name_activity(code), "gaps": count, "idle_ps": time, **gaps.device.place}
            for code, count, time in sum_by_code(name, gaps.duration)
        )
        rows += [CAUSES.row(row, idle_fraction=row["idle_ps"] / whole) for row in CAUSES.sum_rows(times)]
    rows.sort(key=lambda row: (-row["idle_ps"], row["host_activity"], row["device"]))
    return CAUSES.build(rows)

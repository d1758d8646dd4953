# SPDX-License-Identifier: Apache-2.0
"""Breakdown of a device's idle time: the host waited for the device, launched late, or recorded
nothing.

A host that waits for completion (`block_until_ready`, the synchronisation of a stream, a
rendezvous) does not launch late: it lets the device run out of work. The host work between such a
wait and the next launch is exposed because of the wait, as far as the device's work could have
covered it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.facts.python_samples import lines_in_windows
from outpace.metrics.source_line import format_source_line
from outpace.metrics.spans import BusyTime, intersect_spans, merge_spans
from outpace.model import Table, median
from outpace.model.arrays import Indices, Mask, Picoseconds
from outpace.model.text import is_majority
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.tools.kernel_stats.copies import copy_time
from outpace.tools.kernel_stats.idle_gaps import (
    NO_ACTIVITY,
    IdleGaps,
    activity_namer,
    find_activities,
    is_user_annotation,
    step_mark_rows,
)
from outpace.tools.kernel_stats.launches import find_launch_rows, queueing_time
from outpace.tools.kernel_stats.schema import DEVICES
from outpace.trace.algorithms import distinct, isin


@dataclass(frozen=True)
class IdleBreakdown:
    """Parts of a device's time in the steady steps (in its span, where the host has no steps).

    steady_ps: that time, ps
    busy_ps: time in which a stream worked

    The next fields divide the idle time of each gap up to the launch of the work that ended it, ps:

    wait_ps: the host waited for completion
    after_wait_ps: the host worked, having waited in the same gap
    late_launch_ps: the host worked, and had not waited
    unrecorded_ps: part of `late_launch_ps` in gaps without any event of the host
    input_wait_ps: the host waited for input; in none of the other parts

    median_wait_ps: `wait_ps` and `after_wait_ps`, if every step had as much as the median step
    async_dispatch: whether the device works for most of the time, and kernels usually (by the
        median) queue for longer than a mean kernel's time after their launch
    longest_wait: name of the event in which the host waited longest; "" for none
    late_activity: what the host did for most of `late_launch_ps`
    late_activity_ps: time of that activity, ps
    is_late_annotated: whether that activity is an annotation of the program's own
    wait_line: the user's line on which the training thread was for most of the time in and after
        waits, by its samples; "" where there is none
    late_line: the same for `late_launch_ps`
    """

    steady_ps: int
    busy_ps: int
    wait_ps: int
    after_wait_ps: int
    late_launch_ps: int
    unrecorded_ps: int
    input_wait_ps: int
    median_wait_ps: int
    async_dispatch: bool
    longest_wait: str
    late_activity: str = NO_ACTIVITY
    late_activity_ps: int = 0
    is_late_annotated: bool = False
    wait_line: str = ""
    late_line: str = ""

    @property
    def wait_cost_ps(self) -> int:
        """Upper bound of what waits cost in the steps, ps.

        It consists of the waits and of the host's work after them, as far as the device's work
        could cover that, but is no more than `median_wait_ps`.
        """
        return min(self.wait_ps + min(self.after_wait_ps, self.busy_ps), self.median_wait_ps)

    @property
    def launch_cost_ps(self) -> int:
        """Upper bound of what late launches cost, ps; 0 where the host runs ahead."""
        return 0 if self.async_dispatch else self.late_launch_ps + max(self.after_wait_ps - self.busy_ps, 0)


def compute_devices(run: Run, gaps_by_device: list[IdleGaps]) -> Table:
    """Return `DEVICES`: kernel, copy, busy and idle time of every device that ran kernels, and the
    parts of the idle time in steps.
    """
    rows = []
    for gaps in gaps_by_device:
        device, (first, last), parts = gaps.device, gaps.span, compute_idle_breakdown(run, gaps)
        times = device.trace.duration[device.kernel_rows]
        missing, span = int(gaps.duration.sum()), last - first
        row = DEVICES.row(
            device.place,
            kernels=len(times),
            kernel_ps=int(times.sum()),
            mean_kernel_ps=float(times.mean()),
            copy_ps=copy_time(device),
            tuning_ps=int(device.trace.duration[device.autotuning_rows].sum()),
            span_ps=span,
            busy_ps=span - missing,
            idle_ps=missing,
            idle_fraction=missing / span,
            unlaunched_ps=gaps.unlaunched_ps,
            judged_ps=parts.steady_ps,
            waited_ps=parts.wait_ps,
            after_ps=parts.after_wait_ps,
            late_ps=parts.late_launch_ps,
            unrecorded_ps=parts.unrecorded_ps,
            fed_ps=parts.input_wait_ps,
            by_waiting_ps=parts.wait_cost_ps,
            by_launching_ps=parts.launch_cost_ps,
            waits=parts.longest_wait,
            late_in=parts.late_activity,
            late_in_ps=parts.late_activity_ps,
            late_own=parts.is_late_annotated,
            wait_line=parts.wait_line,
            late_line=parts.late_line,
        )
        rows.append(row)
    return DEVICES.build(rows)


def compute_idle_breakdown(run: Run, gaps: IdleGaps) -> IdleBreakdown:
    """Return the parts of one device's idle time; all are 0 where the device has no event in the
    steps.
    """
    timeline = gaps.device.timeline
    steps, (first, last) = timeline.steps, gaps.span
    judged = (
        merge_spans(steps.start[steps.steady_rows], steps.end[steps.steady_rows])
        if len(steps)
        else (np.array([first]), np.array([last]))
    )
    edged = _extend_gaps(gaps, int(judged[0][0]), int(judged[1][-1]))
    _, start, end = intersect_spans(judged[0], judged[1], (edged.start, edged.end))
    gap = np.searchsorted(edged.start, start, side="right") - 1
    time = int((judged[1] - judged[0]).sum())
    working = time - int((end - start).sum())
    if working <= 0:
        return IdleBreakdown(0, 0, 0, 0, 0, 0, 0, 0, False, "")
    called = edged.launch_start[gap]
    called = np.where(called < 0, start, np.clip(called, start, end))
    waited, waits = find_wait_times(edged, gap, start, called, EventFlag.DEVICE_WAIT)
    fed = np.where(waited > 0, 0, find_wait_times(edged, gap, start, called, EventFlag.INPUT_OP)[0])
    unlaunched = called - start - fed
    late = waited == 0
    late_in = _late_activity(edged, gap[late], unlaunched[late])
    return IdleBreakdown(
        steady_ps=time,
        busy_ps=working,
        wait_ps=int(waited.sum()),
        after_wait_ps=int((unlaunched - waited)[~late].sum()),
        late_launch_ps=int(unlaunched[late].sum()),
        input_wait_ps=int(fed.sum()),
        unrecorded_ps=int(unlaunched[late & (edged.activity_rows[gap] < 0)].sum()),
        median_wait_ps=_usual_total_ps(steps.start[steps.steady_rows], start[~late], unlaunched[~late]),
        async_dispatch=2 * working > time and _runs_ahead(gaps),
        longest_wait=waits,
        late_activity=late_in[0],
        late_activity_ps=late_in[1],
        is_late_annotated=late_in[2],
        wait_line=_find_line(run, timeline, start[~late], called[~late]),
        late_line=_find_line(run, timeline, start[late], called[late]),
    )


def _find_line(run: Run, timeline: Timeline, start: Picoseconds, end: Picoseconds) -> str:
    """Return the user's line on which the training thread was for most of some spans; "" where
    there is none, or no samples.
    """
    lines = lines_in_windows(run, timeline, start, end)
    file, line, _, time = lines[0] if lines else ("", 0, "", 0.0)
    return format_source_line(file, line) if line and is_majority(time, sum(time for *_, time in lines)) else ""


def _late_activity(gaps: IdleGaps, gap: Indices, late: Picoseconds) -> tuple[str, int, bool]:
    """Return (activity, its time in ps, whether it is an annotation of the program's own).

    The activity is what the host did for most of the time in which it was late.

    gap: index of the gap of each late span
    late: time in which the host was late, ps, one item per late span
    """
    trace, name_activity = gaps.device.trace, activity_namer(gaps.device)
    row = gaps.activity_rows[gap]
    row = np.where(isin(row, step_mark_rows(gaps.device.timeline)), -1, row)
    name = np.where(row >= 0, trace.name[np.maximum(row, 0)], -1)
    sums: dict[str, list[int]] = {}
    for code in distinct(name).tolist():
        entry = sums.setdefault(name_activity(code), [0, -1])
        entry[0] += int(late[name == code].sum())
        entry[1] = code
    top = max(sums, key=lambda text: sums[text][0], default=NO_ACTIVITY)
    time, code = sums.get(top, (0, -1))
    rows = row[name == code] if code >= 0 else row[:0]
    return top, time, bool(len(rows)) and is_user_annotation(gaps.device.timeline, int(rows[0]))


def _usual_total_ps(steps: Picoseconds, start: Picoseconds, length: Picoseconds) -> int:
    """Return the number of steps times the median over steps of the summed length of the spans that
    start in a step, ps.

    steps: starts of the steps
    start, length: start and length of the spans, ps
    """
    of_step = np.maximum(np.searchsorted(steps, start, side="right") - 1, 0)
    count = max(len(steps), 1)
    return int(count * median(np.bincount(of_step, length, count)))


def _extend_gaps(gaps: IdleGaps, begin: int, stop: int) -> IdleGaps:
    """Return the gaps, extended by the time in [begin, stop) before the device's first and after
    its last event.

    The work that follows the last event is assumed to be launched at `stop`.
    """
    device, (first, last) = gaps.device, gaps.span
    trace, call = device.trace, find_launch_rows(device, device.busy_rows[:1])
    begin, stop = min(begin, first), max(stop, last)
    called = int(trace.start[call[0]]) if call[0] >= 0 else -1
    caller = int(trace.line[call[0]]) if call[0] >= 0 else -1
    activity = find_activities(
        device.timeline, np.array([begin, last]), np.array([first, stop]), np.array([caller, -1])
    ).tolist()
    return IdleGaps(
        device,
        gaps.span,
        start=np.concatenate(([begin], gaps.start, [last])),
        end=np.concatenate(([first], gaps.end, [stop])),
        next_rows=np.concatenate((device.busy_rows[:1], gaps.next_rows, [-1])),
        launch_start=np.concatenate(([called], gaps.launch_start, [stop])),
        launch_line=np.concatenate(([caller], gaps.launch_line, [-1])),
        activity_rows=np.concatenate((activity[:1], gaps.activity_rows, activity[1:])),
    )


def find_wait_times(
    gaps: IdleGaps, gap: Indices, start: Picoseconds, called: Picoseconds, what: EventFlag
) -> tuple[Picoseconds, str]:
    """Return (time in which the host was in events of a kind in each [start, called), ps; name of a
    long event).

    Of several threads that wait in a span, the one that waits longest counts. The name is that of
    the longest event of the kind on the thread that waits most in total; "" where no thread waits.
    """
    waited, longest, name = np.zeros(len(start), np.int64), 0, ""
    for line, spans in _lines(gaps, gap):
        open_, called_so = _thread_busy_time(gaps.device.timeline, line, what)
        stop = open_.snap_to_start(called[spans])  # a wait that goes on while another thread launches did not delay that launch
        part = np.maximum(open_.busy_until(stop) - open_.busy_until(np.minimum(start[spans], stop)), 0)
        waited[spans] = np.maximum(waited[spans], part)
        if (total := int(part.sum())) > longest:
            longest, name = total, called_so
    return waited, name


def _thread_busy_time(timeline: Timeline, line: int, what: EventFlag) -> tuple[BusyTime, str]:
    """Return (spans in which a thread was in events of a kind, name of the longest event or "").

    The result is cached in the trace, since all devices of a host ask for it.
    """
    trace = timeline.trace

    def made() -> tuple[BusyTime, str]:
        rows = trace.lines.row_slice(line)
        positions = rows.start + np.flatnonzero(timeline.event_names.mask(what)[trace.name[rows]])
        name = trace.names[trace.name[positions[np.argmax(trace.duration[positions])]]] if len(positions) else ""
        return BusyTime.from_sorted_spans(trace.start[positions], trace.end[positions]), name

    return cast(tuple[BusyTime, str], trace.cache.get((_thread_busy_time, line, what), made))


def _lines(gaps: IdleGaps, gap: Indices) -> Iterator[tuple[int, Mask]]:
    """Yield (thread, mask of the gaps for which its waits count).

    The training thread counts for all gaps, the launching thread for the gaps that it ended, and a
    thread whose event represents the host's activity for the gaps of that activity.
    """
    timeline = gaps.device.timeline
    trace, host = timeline.trace, _host_lines(timeline)
    for line in distinct(timeline.steps.line).tolist():
        if line in host:
            yield line, np.ones(len(gap), bool)
    rows = gaps.activity_rows[gap]
    for of_gap in (np.where(rows >= 0, trace.line[np.maximum(rows, 0)], -1), gaps.launch_line[gap]):
        for line in distinct(of_gap[of_gap >= 0]).tolist():
            yield line, of_gap == line


def _host_lines(timeline: Timeline) -> frozenset[int]:
    """Return the lines of the host's planes."""
    return frozenset(line for plane in timeline.host_planes for line in plane.lines)


def _runs_ahead(gaps: IdleGaps) -> bool:
    """Whether kernels usually (by the median) queue for longer than a mean kernel's time."""
    device, kernels = gaps.device, gaps.device.kernel_rows
    waits = queueing_time(device, kernels, find_launch_rows(device, kernels))
    return bool(median(waits) > device.trace.duration[kernels].mean())

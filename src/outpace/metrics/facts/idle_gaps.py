# SPDX-License-Identifier: Apache-2.0
"""Find where a training thread stops for the same time in most steps.

No event runs for a while, always about equally long, as in a sleep, a lock or a call to a network
service. Computation in Python is seldom so even. A call that returns only when the device is done
stops the thread too, and some libraries wait so without an event. Such a stop lasts while the
device works, ends a short and even time after it, and varies as the device's work does: whatever
the code, it is a wait for the device.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.spans import BusyTime, intersect_spans, merge_spans
from outpace.model import median
from outpace.model.arrays import Indices, Picoseconds
from outpace.timeline import Run, Timeline
from outpace.trace import dialect
from outpace.trace.algorithms import isin

_MAX_DEVIATION = 0.05  # maximum deviation of a gap from the median gap, relative to it
_MIN_SHARE = 0.5  # minimum share of steps with such a gap
_MIN_STEPS = 3  # minimum number of steps in which a gap can be seen to recur
_MIN_GAP = 1e9  # ps: minimum length of a gap; Python takes less around any call
_MIN_COVERED = 0.9  # minimum share of a wait, up to the device's last event, in which the device works
_MAX_BEHIND = 0.25  # maximum share of a wait after the device's last event, in which Python resumes
# Maximum deviation of the time after that event from its median, relative to it: more is another
# wait.
_MAX_BEHIND_DEVIATION = 0.5
_SPREAD = 1.5  # maximum spread of that time as a multiple of the spread of the waits' lengths: a wait's end follows the device


@dataclass(frozen=True)
class IdleGap:
    """A gap without events on the training thread that recurs in most steps.

    gap_steps: number of steps with the gap
    steps: number of steady steps
    length_ps: minimum length of the gap, ps
    share: share of the steady steps that is saved without the gaps, each counted with `length_ps`
        at most
    previous_event: name of the event before the gap; "" where the step begins with it
    next_event: name of the event after the gap; "" where the step ends with it
    """

    gap_steps: int
    steps: int
    length_ps: float
    share: float
    previous_event: str
    next_event: str


def find_idle_gap(run: Run, host: str) -> IdleGap | None:
    """Return the recurring gap of a host's training thread; None where most steps have none."""
    timeline = run.by_host[host]
    steps = timeline.steps
    step_lines = steps.line[steps.line >= 0]
    if len(steps.steady_rows) < _MIN_STEPS or len(step_lines) == 0:
        return None
    start, end = steps.start[steps.steady_rows], steps.end[steps.steady_rows]
    rows = _events(timeline, int(np.bincount(step_lines).argmax()))
    begin, length = _longest(timeline, rows)
    awaited = isin(begin, device_waits(timeline).start)
    length = np.where(awaited, 0, length)
    usual = median(length)
    alike = np.abs(length - usual) <= _MAX_DEVIATION * usual
    if usual < _MIN_GAP or alike.mean() <= _MIN_SHARE:
        return None
    least = float(length[alike].min())
    gone = float(np.minimum(length, least).sum() / (end - start).sum())
    at = int(np.flatnonzero(alike)[0])
    after, before = _neighbors(timeline, rows, int(begin[at]), int(begin[at] + length[at]))
    return IdleGap(int(alike.sum()), len(length), least, gone, after, before) if after or before else None


@dataclass(frozen=True, eq=False)
class DeviceWaits:
    """Gaps of the training thread that are waits for a device, at most one per step, in order of
    time.

    start: start of each wait, ps
    end: end of each wait, ps
    device_idle_ps: time from the end of the device's work in the wait to the start of its next
        work, ps
    """

    start: Picoseconds
    end: Picoseconds
    device_idle_ps: Picoseconds


@memoize
def device_waits(timeline: Timeline) -> DeviceWaits:
    """Return the waits of one host; none unless most of the steady steps have one."""
    none = np.zeros(0, np.int64)
    steps = timeline.steps
    step_lines = steps.line[steps.line >= 0]
    lines = [line for plane in timeline.device_planes for line in timeline.device_lines(plane)]
    if len(steps.steady_rows) < _MIN_STEPS or len(step_lines) == 0 or not lines:
        return DeviceWaits(none, none, none)
    begin, length = _longest(timeline, _events(timeline, int(np.bincount(step_lines).argmax())))
    order = np.argsort(begin, kind="stable")
    begin, length = begin[order], length[order]
    end = begin + length
    rows = np.concatenate([timeline.trace.lines.row_numbers(line) for line in lines])
    work = BusyTime.from_sorted_spans(*merge_spans(timeline.trace.start[rows], timeline.trace.end[rows]))
    if not len(work.start):
        return DeviceWaits(none, none, none)
    at = np.searchsorted(work.start, end)
    last = np.minimum(work.end[np.maximum(at - 1, 0)], end)
    behind = end - last
    mask = (at > 0) & (length >= _MIN_GAP) & (behind > 0) & (behind <= _MAX_BEHIND * length)
    mask &= work.busy_until(last) - work.busy_until(begin) >= _MIN_COVERED * (last - begin)
    usual = median(behind[mask]) if mask.any() else 0.0
    mask &= np.abs(behind - usual) <= _MAX_BEHIND_DEVIATION * usual
    if mask.mean() <= _MIN_SHARE or _spread(behind[mask]) > _SPREAD * _spread(length[mask]):
        return DeviceWaits(none, none, none)
    again = np.append(work.start, end.max())[at]
    return DeviceWaits(begin[mask], end[mask], (again - last)[mask])


def _spread(times: Picoseconds) -> float:
    """Return the median absolute deviation of times from their median, ps."""
    return median(np.abs(times - median(times)))


def _events(timeline: Timeline, line: int) -> Indices:
    """Return the event rows of a line, without the marks of steps."""
    trace = timeline.trace
    rows = trace.lines.row_numbers(line)
    return rows[~isin(rows, trace.stat(dialect.STEP_NUM).rows)]


def _neighbors(timeline: Timeline, rows: Indices, begin: int, end: int) -> tuple[str, str]:
    """Return the names of the events that end at `begin` and start at `end`; "" where there is
    none.
    """
    trace = timeline.trace
    after, before = rows[trace.end[rows] == begin][-1:], rows[trace.start[rows] == end][:1]
    return "".join(trace.names[at] for at in trace.name[after]), "".join(trace.names[at] for at in trace.name[before])


def _longest(timeline: Timeline, rows: Indices) -> tuple[Picoseconds, Picoseconds]:
    """Return (start, length) of the longest time without an event in each steady step, int64 ps."""
    trace, steps = timeline.trace, timeline.steps
    start, end = steps.start[steps.steady_rows], steps.end[steps.steady_rows]
    began, ended = merge_spans(trace.start[rows], trace.end[rows])
    # Idle before the first event, between events, and after the last event.
    idle = (np.append(start.min(), ended), np.append(began, end.max()))
    real = idle[1] > idle[0]
    window, low, high = intersect_spans(start, end, (idle[0][real], idle[1][real]))
    order = np.lexsort((high - low, window))
    gap_start, length = np.array(start), np.zeros(len(start), np.int64)
    gap_start[window[order]] = low[order]  # of a window's gaps in rising order, the last assignment wins: the longest
    length[window[order]] = (high - low)[order]
    return gap_start, length

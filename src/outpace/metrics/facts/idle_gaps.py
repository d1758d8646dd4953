"""Where a training thread stops for as long in most steps: no event for a while, always about
equally long, as a sleep, a lock or a service on a network makes it. What Python computes is seldom
so even.

A call that returns only when the device is done stops the thread too, and some libraries wait so
without an event. Such a stop goes on while the device works, ends a short and even time behind it,
and varies as the device's work does: whatever the code, it is a wait for the device.
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

_ALIKE = 0.05  # of the usual length: what differs more is none of them
_MOST = 0.5  # of the steps must hold one
_FEWEST = 3  # steps: of fewer nothing comes round
_LONG = 1e9  # ps: what is shorter is what Python takes around any call
_COVERED = 0.9  # of a wait for the device, up to its last event, it works
_BEHIND = 0.25  # of a wait at most lies behind the device's last event: Python that goes on from there
_EVEN = 0.5  # of the usual time behind that event: what differs more is another wait
_SPREAD = 1.5  # times what stops differ by: ends that follow the device's differ less from these than from the stops' begins


@dataclass(frozen=True)
class IdleGap:
    """In `gap_steps` of `steps` steps nothing runs on the training thread for `length_ps` ps at
    least, behind `previous_event` and before `next_event`; `share`: what is gone of the steady
    steps without any, none of them longer than that.
    """

    gap_steps: int
    steps: int
    length_ps: float
    share: float
    previous_event: str
    next_event: str


def find_idle_gap(run: Run, host: str) -> IdleGap | None:
    """The stop of one host's training thread; None where most steps have none."""
    timeline = run.by_host[host]
    steps = timeline.steps
    known = steps.line[steps.line >= 0]
    if len(steps.steady_rows) < _FEWEST or len(known) == 0:
        return None
    start, end = steps.start[steps.steady_rows], steps.end[steps.steady_rows]
    rows = _events(timeline, int(np.bincount(known).argmax()))
    begin, length = _longest(timeline, rows)
    awaited = np.isin(begin, device_waits(timeline).start)
    length = np.where(awaited, 0, length)
    usual = median(length)
    alike = np.abs(length - usual) <= _ALIKE * usual
    if usual < _LONG or alike.mean() <= _MOST:
        return None
    least = float(length[alike].min())
    gone = float(np.minimum(length, least).sum() / (end - start).sum())
    at = int(np.flatnonzero(alike)[0])
    after, before = _around(timeline, rows, int(begin[at]), int(begin[at] + length[at]))
    return IdleGap(int(alike.sum()), len(length), least, gone, after, before) if after or before else None


@dataclass(frozen=True, eq=False)
class DeviceWaits:
    """Stops of the training thread that are waits for a device, one in a step at most: start and
    end, ps, in order; `device_idle_ps`: how long no device works then, from the end of its work to
    the begin of the next, ps, of each.
    """

    start: Picoseconds
    end: Picoseconds
    device_idle_ps: Picoseconds


@memoize
def device_waits(timeline: Timeline) -> DeviceWaits:
    """The waits of one host; none where fewer than most of the steady steps have one."""
    none = np.zeros(0, np.int64)
    steps = timeline.steps
    known = steps.line[steps.line >= 0]
    lines = [line for plane in timeline.device_planes for line in timeline.device_lines(plane)]
    if len(steps.steady_rows) < _FEWEST or len(known) == 0 or not lines:
        return DeviceWaits(none, none, none)
    begin, length = _longest(timeline, _events(timeline, int(np.bincount(known).argmax())))
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
    held = (at > 0) & (length >= _LONG) & (behind > 0) & (behind <= _BEHIND * length)
    held &= work.busy_until(last) - work.busy_until(begin) >= _COVERED * (last - begin)
    usual = median(behind[held]) if held.any() else 0.0
    held &= np.abs(behind - usual) <= _EVEN * usual
    if held.mean() <= _MOST or _spread(behind[held]) > _SPREAD * _spread(length[held]):
        return DeviceWaits(none, none, none)
    again = np.append(work.start, end.max())[at]
    return DeviceWaits(begin[held], end[held], (again - last)[held])


def _spread(times: Picoseconds) -> float:
    """What times differ by: their median distance from the median."""
    return median(np.abs(times - median(times)))


def _events(timeline: Timeline, line: int) -> Indices:
    """The rows of a line, without the marks of steps."""
    trace = timeline.trace
    rows = trace.lines.row_numbers(line)
    return rows[~np.isin(rows, trace.stat(dialect.STEP_NUM).rows)]


def _around(timeline: Timeline, rows: Indices, begin: int, end: int) -> tuple[str, str]:
    """Names of the event that ends where nothing runs any more, and of the next one; "" where the
    step ends before.
    """
    trace = timeline.trace
    after, before = rows[trace.end[rows] == begin][-1:], rows[trace.start[rows] == end][:1]
    return "".join(trace.names[at] for at in trace.name[after]), "".join(trace.names[at] for at in trace.name[before])


def _longest(timeline: Timeline, rows: Indices) -> tuple[Picoseconds, Picoseconds]:
    """(start, length) of the longest time in each steady step in which none of the events runs,
    int64 ps.
    """
    trace, steps = timeline.trace, timeline.steps
    start, end = steps.start[steps.steady_rows], steps.end[steps.steady_rows]
    began, ended = merge_spans(trace.start[rows], trace.end[rows])
    idle = np.append(start.min(), ended), np.append(began, end.max())  # before the first event, between two, behind the last
    real = idle[1] > idle[0]
    window, low, high = intersect_spans(start, end, (idle[0][real], idle[1][real]))
    order = np.lexsort((high - low, window))
    found, length = np.array(start), np.zeros(len(start), np.int64)
    found[window[order]] = low[order]  # the longest comes last, and stays
    length[window[order]] = (high - low)[order]
    return found, length

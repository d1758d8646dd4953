"""Where a training thread stops for as long in most steps: no event for a while, always about equally long, as a sleep, a lock or a service
on a network makes it. What Python computes is seldom so even."""

from __future__ import annotations

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.spans import union, within
from outpace.model.arrays import Indices, Picoseconds
from outpace.timeline import Run, Timeline
from outpace.trace import dialect

_ALIKE = 0.05  # of the usual length: what differs more is none of them
_MOST = 0.5  # of the steps must hold one
_FEWEST = 3  # steps: of fewer nothing comes round
_LONG = 1e9  # ps: what is shorter is what Python takes around any call


@dataclass(frozen=True)
class Stop:
    """In `count` of `steps` steps nothing runs on the training thread for `length` ps at least, behind `after` and before `before`; `share`:
    what is gone of the steady steps without any, none of them longer than that."""

    count: int
    steps: int
    length: float
    share: float
    after: str
    before: str


def stop(run: Run, host: str) -> Stop | None:
    """The stop of one host's training thread; None where most steps have none."""
    timeline = run.by_host[host]
    steps = timeline.steps
    known = steps.line[steps.line >= 0]
    if len(steps.whole) < _FEWEST or len(known) == 0:
        return None
    start, end = steps.start[steps.whole], steps.end[steps.whole]
    rows = _events(timeline, int(np.bincount(known).argmax()))
    begin, length = _longest(timeline, rows)
    usual = float(np.median(length))
    alike = np.abs(length - usual) <= _ALIKE * usual
    if usual < _LONG or alike.mean() <= _MOST:
        return None
    least = float(length[alike].min())
    gone = float(np.minimum(length, least).sum() / (end - start).sum())
    at = int(np.flatnonzero(alike)[0])
    after, before = _around(timeline, rows, int(begin[at]), int(begin[at] + length[at]))
    return Stop(int(alike.sum()), len(length), least, gone, after, before) if after or before else None


def _events(timeline: Timeline, line: int) -> Indices:
    """The rows of a line, without the marks of steps."""
    trace = timeline.trace
    rows = trace.lines.every_row(line)
    return rows[~np.isin(rows, trace.stat(dialect.STEP_NUM).row)]


def _around(timeline: Timeline, rows: Indices, begin: int, end: int) -> tuple[str, str]:
    """Names of the event that ends where nothing runs any more, and of the next one; "" where the step ends before."""
    trace = timeline.trace
    after, before = rows[trace.end[rows] == begin][-1:], rows[trace.start[rows] == end][:1]
    return "".join(trace.names[at] for at in trace.name[after]), "".join(trace.names[at] for at in trace.name[before])


def _longest(timeline: Timeline, rows: Indices) -> tuple[Picoseconds, Picoseconds]:
    """(start, length) of the longest time in each steady step in which none of the events runs, int64 ps."""
    trace, steps = timeline.trace, timeline.steps
    start, end = steps.start[steps.whole], steps.end[steps.whole]
    began, ended = union(trace.start[rows], trace.end[rows])
    idle = np.append(start.min(), ended), np.append(began, end.max())  # before the first event, between two, behind the last
    real = idle[1] > idle[0]
    window, low, high = within(start, end, (idle[0][real], idle[1][real]))
    order = np.lexsort((high - low, window))
    found, length = np.array(start), np.zeros(len(start), np.int64)
    found[window[order]] = low[order]  # the longest comes last, and stays
    length[window[order]] = (high - low)[order]
    return found, length

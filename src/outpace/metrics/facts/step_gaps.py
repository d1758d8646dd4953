"""What runs between the steps: marks that leave out the input, evaluations, checkpoints, the end of
an epoch.

Step times and their categories say nothing of it. Here the gaps are looked into like steps: which
category takes them, and which line of the program's own.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.facts.python_samples import lines_in_windows
from outpace.metrics.facts.step_breakdown import category_times
from outpace.metrics.facts.step_function import function_call_rows
from outpace.metrics.source_line import format_source_line
from outpace.model import Category, median
from outpace.model.arrays import Indices, Picoseconds
from outpace.timeline import Run, Timeline
from outpace.trace import ComputedColumn, EventColumn

_OFTEN = 0.5  # of the gaps must hold time, for the loop itself to leave it out; else it is single events
_LONG = 0.02  # of the step: a gap that is worth the name


@dataclass(frozen=True)
class StepGaps:
    """`share`: of the time from the first step to the last; `category_shares`: the same by
    category; `in_most_gaps`: whether most of the gaps hold time; `line` and `function`: the user's
    line that it was spent longest at, where Python was sampled (`train.py:41`); `line_share`: its
    part of `share`. `longest_call`: name of the function that is called there for longest, how
    often, and its part of `share`.
    """

    share: float
    category_shares: dict[Category, float]
    in_most_gaps: bool
    line: str
    function: str
    line_share: float
    longest_call: tuple[str, int, float] = ("", 0, 0.0)


@memoize
def step_gaps(run: Run) -> dict[str, StepGaps]:
    """By host with at least two steps."""
    return {t.host: _between(run, t) for t in run.hosts if len(t.steps) > 1}


def _between(run: Run, timeline: Timeline) -> StepGaps:
    steps = timeline.steps
    order = np.argsort(steps.start)
    start, end = steps.end[order][:-1], steps.start[order][1:]
    real = end > start
    start, end = start[real], end[real]
    span = float(steps.end.max() - steps.start.min())
    usual = median(steps.duration)
    often = bool(np.mean(end - start >= _LONG * usual) * np.mean(real) >= _OFTEN) if len(start) else False
    times = category_times(timeline, windows=(start, end, _gap_of(timeline, start, end)))
    shares = {c: float(times[f"{c.value}_ps"].sum()) / span if span > 0 else 0.0 for c in Category}
    lines = lines_in_windows(run, timeline, start, end)
    line, function = (format_source_line(*lines[0][:2]), lines[0][2]) if lines else ("", "")
    at_line = lines[0][3] / span if lines and span > 0 else 0.0
    called = _called(timeline, start, end)
    share = float((end - start).sum()) / span if span > 0 else 0.0
    return StepGaps(share, shares, often, line, function, at_line, (*called[:2], called[2] / span if span > 0 else 0.0))


def _called(timeline: Timeline, start: Picoseconds, end: Picoseconds) -> tuple[str, int, float]:
    """Name of the function that takes most time in windows, its calls there, and their time, ps."""
    trace, rows = timeline.trace, function_call_rows(timeline)
    begun = trace.start[rows]
    at = np.searchsorted(start, begun, side="right") - 1
    rows = rows[(at >= 0) & (begun < end[np.maximum(at, 0)])] if len(start) else rows[:0]
    if not len(rows):
        return "", 0, 0.0
    time = np.bincount(trace.name[rows], weights=trace.duration[rows].astype(np.float64))
    top = int(time.argmax())
    return trace.names[top], int((trace.name[rows] == top).sum()), float(time[top])


def _gap_of(timeline: Timeline, start: Picoseconds, end: Picoseconds) -> EventColumn:
    """Index of the gap in which each event of the training thread begins; -1 for all others, and
    for all events of other threads.
    """
    trace = timeline.trace
    known = timeline.steps.line[timeline.steps.line >= 0]
    thread = trace.lines.row_slice(int(np.bincount(known).argmax())) if len(known) and len(start) else slice(0, 0)

    def gap(rows: Indices) -> Indices:
        found, mine = np.full(len(rows), -1, np.int32), np.flatnonzero((rows >= thread.start) & (rows < thread.stop))
        begun = trace.start[rows[mine]]
        at = np.searchsorted(start, begun, side="right") - 1
        found[mine] = np.where((at >= 0) & (begun < end[np.maximum(at, 0)]), at, -1)
        return found

    return ComputedColumn(gap)

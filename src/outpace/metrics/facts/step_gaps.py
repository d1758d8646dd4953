# SPDX-License-Identifier: Apache-2.0
"""What runs between the steps: input that the steps' marks leave out, evaluations, checkpoints, the
end of an epoch.

Step times and their categories do not contain it. Here the gaps are analysed like steps: by
category, and by line of the program.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.facts.input_iterators import count_iterators
from outpace.metrics.facts.python_lines import python_lines
from outpace.metrics.facts.python_samples import calls_at_line, lines_in_windows
from outpace.metrics.facts.step_breakdown import category_times
from outpace.metrics.facts.step_function import function_call_rows
from outpace.metrics.source_line import format_source_line
from outpace.model import Category, median
from outpace.model.arrays import Indices, Picoseconds
from outpace.timeline import Run, Timeline
from outpace.trace import ComputedColumn, EventColumn

_OFTEN = 0.5  # minimum share of gaps with time for them to be due to the loop itself; else they are single events
_LONG = 0.02  # share of the step: minimum length of a gap


@dataclass(frozen=True)
class StepGaps:
    """Time between the steps of one host.

    share: share of the time from the first step to the last
    category_shares: the same by category
    in_most_gaps: whether most of the gaps are long enough to count
    line: the user's line with most of the time, such as `train.py:41`; "" where Python was not
        sampled
    function: function of that line
    line_share: time at that line, in the unit of `share`
    longest_call: (name, number of calls, share) of the function whose calls take the most time
        there
    calls: functions of libraries in which that line spends at least half of its time, outermost
        first (`keras: Trainer.predict`)
    calls_step: whether the step's own function runs below that line, too
    iterators: number of iterators of whole input pipelines that were made in the capture, per step
    """

    share: float
    category_shares: dict[Category, float]
    in_most_gaps: bool
    line: str
    function: str
    line_share: float
    longest_call: tuple[str, int, float] = ("", 0, 0.0)
    calls: tuple[str, ...] = ()
    calls_step: bool = False
    iterators: float = 0.0


@memoize
def step_gaps(run: Run) -> dict[str, StepGaps]:
    """Return the time between steps by host; hosts with fewer than two steps are left out."""
    return {t.host: _host_gaps(run, t) for t in run.hosts if len(t.steps) > 1}


def _host_gaps(run: Run, timeline: Timeline) -> StepGaps:
    steps = timeline.steps
    order = np.argsort(steps.start)
    start, end = steps.end[order][:-1], steps.start[order][1:]
    real = end > start
    start, end = start[real], end[real]
    span = float(steps.end.max() - steps.start.min())
    usual = median(steps.duration)
    often = bool(np.mean(end - start >= _LONG * usual) * np.mean(real) >= _OFTEN) if len(start) else False
    times = category_times(timeline, windows=(start, end, _gap_index(timeline, start, end)))
    shares = {category: float(times[category.column].sum()) / span if span > 0 else 0.0 for category in Category}
    lines = lines_in_windows(run, timeline, start, end)
    line, function = (format_source_line(*lines[0][:2]), lines[0][2]) if lines else ("", "")
    at_line = lines[0][3] / span if lines and span > 0 else 0.0
    called = _top_function(timeline, start, end)
    share = float((end - start).sum()) / span if span > 0 else 0.0
    longest = (*called[:2], called[2] / span if span > 0 else 0.0)
    calls = calls_at_line(run, timeline, start, end, lines[0][:2]) if lines else ()
    calls_step = any(
        row["calls_step"] and row["host"] == timeline.host and format_source_line(row["file"], row["line"]) == line
        for row in python_lines(run).records()
    )
    made = count_iterators(timeline) / len(steps)
    return StepGaps(share, shares, often, line, function, at_line, longest, calls, calls_step, made)


def _top_function(timeline: Timeline, start: Picoseconds, end: Picoseconds) -> tuple[str, int, float]:
    """Return (name, number of calls, time in ps) of the function with the most time in windows."""
    trace, rows = timeline.trace, function_call_rows(timeline)
    begun = trace.start[rows]
    at = np.searchsorted(start, begun, side="right") - 1
    rows = rows[(at >= 0) & (begun < end[np.maximum(at, 0)])] if len(start) else rows[:0]
    if not len(rows):
        return "", 0, 0.0
    time = np.bincount(trace.name[rows], weights=trace.duration[rows].astype(np.float64))
    top = int(time.argmax())
    return trace.names[top], int((trace.name[rows] == top).sum()), float(time[top])


def _gap_index(timeline: Timeline, start: Picoseconds, end: Picoseconds) -> EventColumn:
    """Return the index of the gap in which each event of the training thread begins; -1 for other
    events.

    Events of other threads have -1, too.
    """
    trace = timeline.trace
    step_lines = timeline.steps.line[timeline.steps.line >= 0]
    thread = trace.lines.row_slice(int(np.bincount(step_lines).argmax())) if len(step_lines) and len(start) else slice(0, 0)

    def gap(rows: Indices) -> Indices:
        index, on_thread = np.full(len(rows), -1, np.int32), np.flatnonzero((rows >= thread.start) & (rows < thread.stop))
        begun = trace.start[rows[on_thread]]
        at = np.searchsorted(start, begun, side="right") - 1
        index[on_thread] = np.where((at >= 0) & (begun < end[np.maximum(at, 0)]), at, -1)
        return index

    return ComputedColumn(gap)

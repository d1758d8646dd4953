# SPDX-License-Identifier: Apache-2.0
"""Idle time of a device by where it lies (before a step, between programs, inside of one) and by
who was late: the host, with the user's line, or the device itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._caching import memoize
from outpace._lazy import compile_lazily
from outpace.metrics.facts.idle_gaps import device_waits
from outpace.metrics.facts.program_runs import find_programs, find_run_starts
from outpace.metrics.facts.python_samples import lines_in_windows
from outpace.metrics.source_line import format_source_line
from outpace.metrics.spans import BusyTime
from outpace.model import Row, Table
from outpace.model.arrays import Codes, Indices, Mask, Picoseconds
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.tools.kernel_stats.idle_breakdown import find_wait_times
from outpace.tools.kernel_stats.idle_gaps import IdleGaps, activity_namer, find_activities, is_user_annotation, step_mark_rows
from outpace.tools.kernel_stats.schema import LAUNCH_GAPS
from outpace.trace import dialect
from outpace.trace.algorithms import distinct, find_slice, isin

INSIDE, BETWEEN, BESIDE, BEFORE_STEP, OUTSIDE = (
    "inside a program",
    "between programs",
    "beside programs",
    "before a step",
    "outside of steps",
)
_PLACES = (INSIDE, BETWEEN, BESIDE, BEFORE_STEP, OUTSIDE)
LAUNCHED, UNKNOWN = "none: launched before", "launch not recorded"
AWAITED, FED = "waiting for the device", "waiting for input"
ALLOCATING, GRAPH, BUILDING = "allocating memory", "updating a CUDA graph", "building a program"
CALLING, PYTHON = "a call of the framework", "Python, or a library without events"
_ALLOCATES = compile_lazily(r"[Aa]lloc")
_CAUSES = (PYTHON, CALLING, ALLOCATING, GRAPH, BUILDING, FED)
_FLAGS = {
    GRAPH: EventFlag.GRAPH_UPDATE | EventFlag.GRAPH_COMMAND | EventFlag.GRAPH_LAUNCH,
    BUILDING: EventFlag.BUILD,
    FED: EventFlag.INPUT_OP,
}


def compute_launch_gaps(run: Run, gaps_by_device: list[IdleGaps]) -> Table:
    """Return `LAUNCH_GAPS`: idle time by place and by who was late, longest first."""
    return LAUNCH_GAPS.build(row for gaps in gaps_by_device for row in _rows(run, gaps)).sort_by("idle_ps")


def _rows(run: Run, gaps: IdleGaps) -> Iterator[Row]:
    """Yield the rows of one device. Each gap is divided: the host waited for the device, then did
    something else, then launched, and then the work began.
    """
    is_known = gaps.launch_start >= 0
    called = np.where(is_known, np.clip(gaps.launch_start, gaps.start, gaps.end), gaps.end)
    waited = _wait_times(gaps, called)
    place, (cause, activity) = _places(gaps), _causes(gaps, gaps.start + waited, called)
    for number, where in enumerate(_PLACES):
        here = place == number
        yield from _row(run, gaps, where, LAUNCHED, here & is_known, gaps.end - called)
        yield from _row(run, gaps, where, UNKNOWN, here & ~is_known, called - gaps.start)
        yield from _row(run, gaps, where, AWAITED, here & is_known, waited, called)
        for code, doing in enumerate(_CAUSES):
            chosen = here & is_known & (cause == code)
            yield from _row(run, gaps, where, doing, chosen, called - gaps.start - waited, called, activity)


def _row(
    run: Run,
    gaps: IdleGaps,
    where: str,
    doing: str,
    chosen: Mask,
    times: Picoseconds,
    called: Picoseconds | None = None,
    activity: Indices | None = None,
) -> Iterator[Row]:
    """Yield the row of one place and cause, where it takes time; `called`: launches, up to which
    the user's line counts; `activity`: event row of what the host did.
    """
    at = np.flatnonzero(chosen & (times > 0))
    if not len(at):
        return
    longest = int(activity[at[np.argmax(times[at])]]) if activity is not None else -1
    trace = gaps.device.trace
    line, share = _find_line(run, gaps, gaps.start[at], called[at]) if called is not None else ("", float("nan"))
    yield LAUNCH_GAPS.row(
        gaps.device.place,
        place=where,
        late=doing,
        activity=activity_namer(gaps.device)(int(trace.name[longest])) if longest >= 0 else "",
        line=line,
        line_share=share,
        gaps=len(at),
        idle_ps=int(times[at].sum()),
        idle_fraction=int(times[at].sum()) / int(gaps.duration.sum()),
    )


def _places(gaps: IdleGaps) -> Codes:
    """Return the place of each gap, as an index into `_PLACES`, by the events around it."""
    timeline, trace, rows = gaps.device.timeline, gaps.device.trace, gaps.device.busy_rows
    by_end = rows[np.argsort(trace.end[rows], kind="stable")]
    before, after = by_end[np.searchsorted(trace.end[by_end], gaps.start, side="left")], gaps.next_rows
    known, begins = _run_starts(gaps)
    places = [np.searchsorted(known, some) for some in (before, after)]
    is_known = [isin(some, known) for some in (before, after)]
    program = find_programs(timeline, np.concatenate((before, after)))
    same = program[: len(before)] == program[len(before) :]
    starts = begins[np.minimum(places[1], max(len(begins) - 1, 0))] if len(begins) else np.zeros(len(after), bool)
    steps = timeline.step_index[before], timeline.step_index[after]
    is_outside = (np.minimum(*steps) < 0) & (len(timeline.steps) > 0)
    inside = np.where(same & ~starts, _PLACES.index(INSIDE), _PLACES.index(BETWEEN))
    place = np.where(is_known[0] & is_known[1], inside, _PLACES.index(BESIDE))
    place = np.where(steps[0] != steps[1], _PLACES.index(BEFORE_STEP), place)
    return np.where(is_outside, _PLACES.index(OUTSIDE), place)


def _run_starts(gaps: IdleGaps) -> tuple[Indices, Mask]:
    """Return (sorted rows of the device's events that belong to programs, whether a run begins with
    each).
    """
    timeline, trace = gaps.device.timeline, gaps.device.trace
    every = trace.stat(dialect.HLO_OP).rows
    rows = every[find_slice(every, trace.rows_of(gaps.device.plane))].astype(np.int64)
    rows = rows[isin(rows, gaps.device.program_rows)]
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    if not len(rows):
        return rows, np.zeros(0, bool)
    begins, order = find_run_starts(timeline, rows, find_programs(timeline, rows)), np.argsort(rows)
    return rows[order], begins[order]


def _causes(gaps: IdleGaps, begin: Picoseconds, called: Picoseconds) -> tuple[Codes, Indices]:
    """Return (what the host did in each gap before it launched, as an index into `_CAUSES`; event
    row of that, -1 for none). `begin`: end of its wait for the device, which comes first.
    """
    trace, timeline = gaps.device.trace, gaps.device.timeline
    rows, late = np.full(len(called), -1, np.int64), np.flatnonzero(called > begin)
    rows[late] = find_activities(timeline, begin[late], called[late], gaps.launch_line[late])
    rows = np.where(isin(rows, step_mark_rows(timeline)), -1, rows)
    name = np.where(rows >= 0, trace.name[np.maximum(rows, 0)], 0)
    cause = np.where(rows >= 0, _causes_of_names(timeline)[name], _CAUSES.index(PYTHON))
    calls = (rows >= 0) & (cause == _CAUSES.index(CALLING))
    for code in distinct(name[calls]).tolist():
        if is_user_annotation(timeline, int(rows[calls & (name == code)][-1])):
            cause[calls & (name == code)] = _CAUSES.index(PYTHON)
    return cause, rows


@memoize
def _causes_of_names(timeline: Timeline) -> Codes:
    """Return what an event of each name tells that the host does, as an index into `_CAUSES`."""
    names = timeline.event_names
    allocates = np.array([bool(_ALLOCATES.search(text)) for text in timeline.trace.names], bool)
    cause = np.full(len(allocates), _CAUSES.index(CALLING))
    cause[names.mask(EventFlag.PYTHON_FRAME)] = _CAUSES.index(PYTHON)
    cause[allocates & names.mask(EventFlag.RUNTIME | EventFlag.ALLOCATION)] = _CAUSES.index(ALLOCATING)
    for doing, flags in _FLAGS.items():
        cause[names.mask(flags)] = _CAUSES.index(doing)
    return cause


def _wait_times(gaps: IdleGaps, called: Picoseconds) -> Picoseconds:
    """Return how long the host waited for the device in each gap before it launched, ps: in events,
    or without one.
    """
    waited, _ = find_wait_times(gaps, np.arange(len(gaps.start)), gaps.start, called, EventFlag.DEVICE_WAIT)
    silent = device_waits(gaps.device.timeline)
    spans = BusyTime.from_sorted_spans(silent.start, silent.end)
    without = spans.busy_until(called) - spans.busy_until(gaps.start) if len(silent.start) else np.zeros(len(called), np.int64)
    return np.asarray(np.minimum(np.maximum(waited, without), called - gaps.start))


def _find_line(run: Run, gaps: IdleGaps, start: Picoseconds, end: Picoseconds) -> tuple[str, float]:
    """Return (the user's line on which the training thread was most in some spans, share of the
    sampled time in it); ("", NaN) without samples.
    """
    lines = lines_in_windows(run, gaps.device.timeline, start, end)
    if not lines:
        return "", float("nan")
    file, line, _, time = lines[0]
    return format_source_line(file, line), time / sum(time for *_, time in lines)

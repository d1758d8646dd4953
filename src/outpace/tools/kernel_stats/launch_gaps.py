# SPDX-License-Identifier: Apache-2.0
"""Idle time of a device by where it lies (inside a program, between programs, before a step) and
by who was late: the host, with the user's line, or the device itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._lazy import compile_lazily
from outpace.metrics.facts.idle_gaps import device_waits
from outpace.metrics.facts.python_samples import lines_in_windows
from outpace.metrics.source_line import format_source_line
from outpace.model import Row, Table
from outpace.model.arrays import Codes, Indices, Mask, Picoseconds
from outpace.timeline import Run
from outpace.timeline.event_names import EventFlag
from outpace.tools.kernel_stats.idle_breakdown import find_wait_times
from outpace.tools.kernel_stats.idle_gaps import IdleGaps, activity_namer, step_mark_rows
from outpace.tools.kernel_stats.schema import LAUNCH_GAPS
from outpace.trace import dialect
from outpace.trace.algorithms import find_positions, isin

PLACES = ("before a step", "between programs", "inside a program")
LAUNCHED, CALLING, PYTHON = "none: launched before", "a call of the framework", "Python, or a library without events"
ALLOCATING, GRAPH, BUILDING = "allocating memory", "updating a CUDA graph", "building a program"
AWAITED, FED = "waiting for the device, and what followed", "waiting for input"
LATE_CAUSES = (PYTHON, CALLING, ALLOCATING, GRAPH, BUILDING)
"""What a host does that is late and did not wait."""
_CAUSES = (*LATE_CAUSES, AWAITED, FED)
_BY_FLAG = {
    GRAPH: EventFlag.GRAPH_UPDATE | EventFlag.GRAPH_COMMAND | EventFlag.GRAPH_LAUNCH,
    BUILDING: EventFlag.BUILD,
    FED: EventFlag.INPUT_OP,
}
_ALLOCATES = compile_lazily(r"[Aa]lloc")


def compute_launch_gaps(run: Run, gaps_by_device: list[IdleGaps]) -> Table:
    """Return `LAUNCH_GAPS`: idle time by place and by who was late, longest first."""
    return LAUNCH_GAPS.build(row for gaps in gaps_by_device for row in _rows(run, gaps)).sort_by("idle_ps")


def _rows(run: Run, gaps: IdleGaps) -> Iterator[Row]:
    trace, whole = gaps.device.trace, int(gaps.duration.sum())
    called = np.where(gaps.launch_start < 0, gaps.start, np.clip(gaps.launch_start, gaps.start, gaps.end))
    place, cause = _places(gaps), _causes(gaps, called)
    name_activity = activity_namer(gaps.device)
    for number, where in enumerate(PLACES):
        here = place == number
        rest = gaps.end[here] - called[here]
        if rest.any():
            yield _row(gaps, where, LAUNCHED, rest, whole)
        for code, doing in enumerate(_CAUSES):
            chosen = np.flatnonzero(here & (cause == code) & (called > gaps.start))
            if len(chosen):
                late = called[chosen] - gaps.start[chosen]
                longest = int(gaps.activity_rows[chosen[np.argmax(late)]])
                activity = name_activity(int(trace.name[longest])) if longest >= 0 else ""
                line = _find_line(run, gaps, gaps.start[chosen], called[chosen])
                yield _row(gaps, where, doing, late, whole, activity, *line)


def _row(
    gaps: IdleGaps,
    where: str,
    doing: str,
    times: Picoseconds,
    whole: int,
    activity: str = "",
    line: str = "",
    share: float = np.nan,
) -> Row:
    return LAUNCH_GAPS.row(
        gaps.device.place,
        place=where,
        late=doing,
        activity=activity,
        line=line,
        line_share=share,
        gaps=int((times > 0).sum()),
        idle_ps=int(times.sum()),
        idle_fraction=int(times.sum()) / whole,
    )


def _places(gaps: IdleGaps) -> Codes:
    """Return the place of each gap, as an index into `PLACES`."""
    timeline, rows = gaps.device.timeline, gaps.device.busy_rows
    after = gaps.next_rows
    by_end = rows[np.argsort(gaps.device.trace.end[rows], kind="stable")]
    before = by_end[np.searchsorted(gaps.device.trace.end[by_end], gaps.start, side="left")]
    program = _programs(gaps, np.concatenate((before, after)))
    same = (program[: len(before)] == program[len(before) :]) & (program[: len(before)] != 0)
    next_step = timeline.step_index[before] != timeline.step_index[after]
    return np.where(next_step, 0, np.where(same, 2, 1))


def _programs(gaps: IdleGaps, rows: Indices) -> Codes:
    """Return the id of the program of each device event; 0 for none."""
    stat = gaps.device.trace.stat(dialect.PROGRAM_ID)
    at = find_positions(stat.rows, rows)
    return np.where(at >= 0, stat.ints[np.maximum(at, 0)], 0) if len(stat.rows) else np.zeros(len(rows), np.int64)


def _causes(gaps: IdleGaps, called: Picoseconds) -> Codes:
    """Return what the host did in each gap up to its launch, as an index into `_CAUSES`."""
    trace, rows = gaps.device.trace, gaps.activity_rows
    rows = np.where(isin(rows, step_mark_rows(gaps.device.timeline)), -1, rows)
    name = np.where(rows >= 0, trace.name[np.maximum(rows, 0)], 0)
    cause = np.where(rows >= 0, _CAUSES.index(CALLING), _CAUSES.index(PYTHON))

    def set_cause(names: Mask, doing: str) -> None:
        cause[(rows >= 0) & names[name]] = _CAUSES.index(doing)

    set_cause(gaps.device.timeline.event_names.mask(EventFlag.PYTHON_FRAME), PYTHON)
    set_cause(np.array([bool(_ALLOCATES.search(text)) for text in trace.names]), ALLOCATING)
    cause[_waited_mask(gaps, called)] = _CAUSES.index(AWAITED)
    for doing, flags in _BY_FLAG.items():
        set_cause(gaps.device.timeline.event_names.mask(flags), doing)
    return cause


def _waited_mask(gaps: IdleGaps, called: Picoseconds) -> Mask:
    """Return whether the host waited for the device in each gap up to its launch, in an event or
    without one.
    """
    waited, _ = find_wait_times(gaps, np.arange(len(gaps.start)), gaps.start, called, EventFlag.DEVICE_WAIT)
    silent = device_waits(gaps.device.timeline)
    at = np.searchsorted(silent.start, gaps.start, side="right") - 1
    inside = (at >= 0) & (gaps.start < silent.end[np.maximum(at, 0)]) if len(silent.start) else np.zeros(len(at), bool)
    return np.asarray((waited > 0) | inside)


def _find_line(run: Run, gaps: IdleGaps, start: Picoseconds, end: Picoseconds) -> tuple[str, float]:
    """Return (the user's line on which the training thread was for most of some spans, share of the
    sampled time in it); ("", NaN) without samples.
    """
    lines = lines_in_windows(run, gaps.device.timeline, start, end)
    if not lines:
        return "", float("nan")
    file, line, _, time = lines[0]
    return format_source_line(file, line), time / sum(time for *_, time in lines)

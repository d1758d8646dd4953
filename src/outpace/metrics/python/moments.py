"""What the training thread was doing at given moments, as the profile's own events tell: where none ran, Python did."""

from __future__ import annotations

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.model.jax_time import builds
from outpace.metrics.program.step_breakdown import category_of, event_kinds
from outpace.metrics.program.stops import device_waits
from outpace.model import Category
from outpace.model.arrays import Codes, Indices, Mask, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.names import INPUT_THREADS, Is

_ELSEWHERE_NOT = (INPUT_THREADS, "python")


@dataclass(frozen=True, eq=False)
class Nature:
    """Of each moment: whether the training thread recorded no event (`free`), other threads computed for it (`others`), it waited
    (`waiting`), or it built a program (`building`: Python that traces and compiles a function is the compilation's, and never `free`)."""

    free: Mask
    others: Mask
    waiting: Mask
    building: Mask


def nature(timeline: Timeline, moment: Picoseconds) -> Nature:
    """What the training thread was doing at each moment (ps)."""
    trace, kind = timeline.trace, event_kinds(timeline)
    mine, others = _threads(timeline)
    wrapper, python, wait = (timeline.names.are(what)[trace.name[mine]] for what in (Is.WRAPPER, Is.PYTHON, Is.BLOCKS))
    event = mine[((kind[mine] > 0) | wrapper) & ~python]
    waits = mine[np.isin(kind[mine], _kinds_of(kind, Category.INPUT)) | wait]
    compiling = mine[np.isin(kind[mine], _kinds_of(kind, Category.COMPILATION))]
    busy = others[kind[others] > 0]
    traced, other, waiting = (covered(trace.start[rows], trace.end[rows], moment) for rows in (event, busy, waits))
    _, start, end = builds(timeline)
    building = covered(np.concatenate((trace.start[compiling], start)), np.concatenate((trace.end[compiling], end)), moment)
    silent = device_waits(timeline)
    waiting |= covered(silent.start, silent.end, moment)
    return Nature(~traced & ~building, other, waiting, building)


def in_calls(timeline: Timeline, rows: Indices, moment: Picoseconds) -> Mask:
    """Whether each moment lies in one of the calls."""
    return covered(timeline.trace.start[rows], timeline.trace.end[rows], moment)


def covered(start: Picoseconds, end: Picoseconds, moment: Picoseconds) -> Mask:
    """Whether each moment lies in one of the intervals [start, end)."""
    if len(start) == 0:
        return np.zeros(len(moment), bool)
    order = np.argsort(start, kind="stable")
    last = np.maximum.accumulate(end[order])
    at = np.searchsorted(start[order], moment, side="right") - 1
    return np.asarray((at >= 0) & (moment < last[np.maximum(at, 0)]))


def _kinds_of(kind: Codes, category: Category) -> Codes:
    """The kinds of event that a category shows."""
    return np.array([code for code in range(int(kind.max(initial=0)) + 1) if category_of(code) is category], np.uint8)


def _threads(timeline: Timeline) -> tuple[Indices, Indices]:
    """Event rows of the training thread (of no thread where none is known to train), and of those that compute for it.

    The latter are the framework's own threads and devices; threads that read input, and Python's others, work on something else.
    """
    trace, known = timeline.trace, timeline.steps.line[timeline.steps.line >= 0]
    training = int(np.bincount(known).argmax()) if len(known) else -1
    mine, others = np.arange(0), [np.arange(0)]
    for plane in timeline.host_planes:
        for line in plane.lines:
            rows = trace.lines.every_row(line)
            if line == training:
                mine = rows
            elif not trace.lines.names[line].startswith(_ELSEWHERE_NOT):
                others.append(rows)
    for plane in timeline.device_planes:
        others += [trace.lines.every_row(line) for line in timeline.device_lines(plane)]
    return mine, np.concatenate(others)

# SPDX-License-Identifier: Apache-2.0
"""What the training thread did at given moments, from the profile's events: where none ran, Python
did.
"""

from __future__ import annotations

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.facts.idle_gaps import device_waits
from outpace.metrics.facts.jax_activity import build_spans
from outpace.metrics.facts.step_breakdown import category_of, event_kinds
from outpace.model import Category
from outpace.model.arrays import Codes, Indices, Mask, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.event_names import INPUT_THREADS, EventFlag
from outpace.trace.algorithms import isin

_ELSEWHERE_NOT = (INPUT_THREADS, "python")


@dataclass(frozen=True, eq=False)
class ThreadStates:
    """The state of the training thread at each moment, bool arrays.

    untraced: whether it recorded no event, and built no program
    elsewhere: whether other threads or devices computed for it
    waiting: whether it waited
    building: whether it built a program: Python that traces and compiles a function is compilation
    """

    untraced: Mask
    elsewhere: Mask
    waiting: Mask
    building: Mask


def thread_states(timeline: Timeline, times_ps: Picoseconds) -> ThreadStates:
    """Return the state of the training thread at each moment.

    times_ps: moments, ps
    """
    trace, kind = timeline.trace, event_kinds(timeline)
    training_rows, helper_rows = _threads(timeline)
    wrapper, python, wait = (
        timeline.event_names.mask(what)[trace.name[training_rows]]
        for what in (EventFlag.WRAPPER, EventFlag.PYTHON_FRAME, EventFlag.BLOCKING_WAIT)
    )
    event = training_rows[((kind[training_rows] > 0) | wrapper) & ~python]
    waits = training_rows[isin(kind[training_rows], _kinds_of(kind, Category.INPUT)) | wait]
    compiling = training_rows[isin(kind[training_rows], _kinds_of(kind, Category.COMPILATION))]
    busy = helper_rows[kind[helper_rows] > 0]
    traced, other, waiting = (isin_spans(trace.start[rows], trace.end[rows], times_ps) for rows in (event, busy, waits))
    _, start, end = build_spans(timeline)
    building = isin_spans(
        np.concatenate((trace.start[compiling], start)), np.concatenate((trace.end[compiling], end)), times_ps
    )
    silent = device_waits(timeline)
    waiting |= isin_spans(silent.start, silent.end, times_ps)
    return ThreadStates(~traced & ~building, other, waiting, building)


def isin_events(timeline: Timeline, rows: Indices, times_ps: Picoseconds) -> Mask:
    """Return whether each moment lies in one of the events at `rows`, bool.

    times_ps: moments, ps
    """
    return isin_spans(timeline.trace.start[rows], timeline.trace.end[rows], times_ps)


def isin_spans(start: Picoseconds, end: Picoseconds, times_ps: Picoseconds) -> Mask:
    """Return whether each moment lies in one of the spans [start, end), bool.

    start: starts of the spans, ps, in any order
    end: ends of the spans, ps
    times_ps: moments, ps
    """
    if len(start) == 0:
        return np.zeros(len(times_ps), bool)
    order = np.argsort(start, kind="stable")
    last = np.maximum.accumulate(end[order])
    at = np.searchsorted(start[order], times_ps, side="right") - 1
    return np.asarray((at >= 0) & (times_ps < last[np.maximum(at, 0)]))


def _kinds_of(kind: Codes, category: Category) -> Codes:
    """Return the kinds of event that belong to a category."""
    return np.array([code for code in range(int(kind.max(initial=0)) + 1) if category_of(code) is category], np.uint8)


def _threads(timeline: Timeline) -> tuple[Indices, Indices]:
    """Return (rows of the training thread, rows of the threads and devices that compute for it).

    The former is empty where the training thread is unknown. The latter are the framework's own
    threads and devices; threads that read input, and Python's other threads, do other work.
    """
    trace, step_lines = timeline.trace, timeline.steps.line[timeline.steps.line >= 0]
    training = int(np.bincount(step_lines).argmax()) if len(step_lines) else -1
    training_rows, helpers = np.arange(0), [np.arange(0)]
    for plane in timeline.host_planes:
        for line in plane.lines:
            rows = trace.lines.row_numbers(line)
            if line == training:
                training_rows = rows
            elif not trace.lines.names[line].startswith(_ELSEWHERE_NOT):
                helpers.append(rows)
    for plane in timeline.device_planes:
        helpers += [trace.lines.row_numbers(line) for line in timeline.device_lines(plane)]
    return training_rows, np.concatenate(helpers)

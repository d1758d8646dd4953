"""Which devices of a host do the steps' work, and when: they are averaged, never united
or added.
"""

from __future__ import annotations

import numpy as np

from outpace.metrics.spans import intersect_spans, merge_spans
from outpace.model.arrays import Codes, Picoseconds
from outpace.timeline import StepSource, Timeline
from outpace.timeline.xla_threads import has_jax_calls
from outpace.trace import Plane, dialect

_HALF = 0.5  # of the steps that the host has: a device that works in fewer is no part of the program's


def active_devices(timeline: Timeline, event_kind: Codes) -> tuple[Plane, ...]:
    """The devices that work in at least half of the steps, in their time; `event_kind` says of
    every event whether it is work. Of a program of JAX, whichever call launched it.
    """
    steps, trace = timeline.steps, timeline.trace
    found = []
    for plane in timeline.device_planes:
        rows = np.arange(*trace.rows_of(plane).indices(len(event_kind)))
        rows = rows[event_kind[rows] > 0]
        if has_jax_calls(trace):
            step, _, _ = intersect_spans(steps.start, steps.end, merge_spans(trace.start[rows], trace.end[rows]))
        else:
            step = timeline.step_index[rows]
            rows, step = rows[step >= 0], step[step >= 0]
            step = step[(trace.start[rows] < steps.end[step]) & (trace.end[rows] > steps.start[step])]
        worked = np.bincount(step, minlength=len(steps)) > 0
        if (mine := int(worked[steps.complete_rows].sum())) and mine >= _HALF * len(steps.complete_rows):
            found.append(plane)
    return tuple(found)


def step_device(timeline: Timeline) -> Plane | None:
    """The device whose line the steps are on; None where they are a host's."""
    trace, line = timeline.trace, timeline.steps.line
    plane = trace.planes[trace.lines.plane[line[0]]] if len(line) and line[0] >= 0 else None
    return plane if plane is not None and plane.name.startswith(dialect.DEVICE_PREFIX) else None


def device_lags(timeline: Timeline, event_kind: Codes, plane: Plane) -> Picoseconds:
    """How much later than the step's end a device has done its part of it, ps, where it did so at
    another time altogether; else 0.

    A step line of several devices has one time for each step: that of the device that took longest.
    """
    steps, trace, rows = timeline.steps, timeline.trace, timeline.trace.rows_of(plane)
    if steps.source is not StepSource.DEVICE_LINE:
        return np.zeros(len(steps), np.int64)
    step, work = timeline.step_index[rows], event_kind[rows] > 0
    at, first, last = (step >= 0) & work, np.full(len(steps), np.iinfo(np.int64).max), np.full(len(steps), -1, np.int64)
    np.minimum.at(first, step[at], trace.start[rows][at])
    np.maximum.at(last, step[at], trace.end[rows][at])
    elsewhere = (last >= 0) & ((last <= steps.start) | (first >= steps.end))
    return np.where(elsewhere, last - steps.end, 0)

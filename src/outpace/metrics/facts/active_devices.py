# SPDX-License-Identifier: Apache-2.0
"""Which devices of a host work in the steps, and when.

Times of several devices are averaged, never united or added.
"""

from __future__ import annotations

import numpy as np

from outpace.metrics.spans import intersect_spans, merge_spans
from outpace.model.arrays import Codes, Picoseconds
from outpace.timeline import StepSource, Timeline
from outpace.timeline.xla_threads import has_jax_calls
from outpace.trace import Plane, dialect

_MIN_STEP_SHARE = 0.5  # minimum share of the host's steps in which a device of the program works


def active_devices(timeline: Timeline, event_kind: Codes) -> tuple[Plane, ...]:
    """Return the devices that work in at least half of the complete steps.

    event_kind: kind of time per event, 0 for an event that is no work (`event_kinds`)

    An event counts for the step that caused it and in whose time it runs; in a program of JAX, for
    every step in whose time it runs, whichever call launched it.
    """
    steps, trace = timeline.steps, timeline.trace
    devices = []
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
        if (step_count := int(worked[steps.complete_rows].sum())) and step_count >= _MIN_STEP_SHARE * len(steps.complete_rows):
            devices.append(plane)
    return tuple(devices)


def step_device(timeline: Timeline) -> Plane | None:
    """Return the device whose line the steps are on; None where they are on a host's line."""
    trace, line = timeline.trace, timeline.steps.line
    plane = trace.planes[trace.lines.plane[line[0]]] if len(line) and line[0] >= 0 else None
    return plane if plane is not None and plane.name.startswith(dialect.DEVICE_PREFIX) else None


def device_lags(timeline: Timeline, event_kind: Codes, plane: Plane) -> Picoseconds:
    """Return how much later than each step's end a device finished its part of the step, ps per
    step.

    The result is 0 for a step whose time overlaps that part, and where the steps are not on a
    device's line. A step line of several devices has one time for each step: that of the device
    that took longest.
    """
    steps, trace, rows = timeline.steps, timeline.trace, timeline.trace.rows_of(plane)
    if steps.source is not StepSource.DEVICE_LINE:
        return np.zeros(len(steps), np.int64)
    step, work = timeline.step_index[rows], event_kind[rows] > 0
    mask, first, last = (step >= 0) & work, np.full(len(steps), np.iinfo(np.int64).max), np.full(len(steps), -1, np.int64)
    np.minimum.at(first, step[mask], trace.start[rows][mask])
    np.maximum.at(last, step[mask], trace.end[rows][mask])
    elsewhere = (last >= 0) & ((last <= steps.start) | (first >= steps.end))
    return np.where(elsewhere, last - steps.end, 0)

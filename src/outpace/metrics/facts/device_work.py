# SPDX-License-Identifier: Apache-2.0
"""What devices did in each step, and when: the events that count for a step, cut to its time.

An event of a device counts for a step by the rule of the step's categories (`step_breakdown.py`),
so that the times of ops, lines and layers add up to the categories of the device. In a program
whose work is matched by time (JAX), an event counts for every step in whose time it ran, whichever
call launched it; elsewhere for the step that caused it. A call often returns long before the device
begins, so that an event may lie in one step, in two, or after the step that launched it.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.facts.step_breakdown import averaged_devices, step_event_times, time_matched_devices
from outpace.model.arrays import Codes, Indices, Mask, Picoseconds
from outpace.timeline import Timeline
from outpace.trace import Plane
from outpace.trace.algorithms import distinct, find_positions, union_rows


@dataclass(frozen=True, eq=False)
class DeviceWork:
    """Pieces of the events of devices that work in the steps, sorted by event row and step.

    row: event row of each piece
    step: index of its step
    start: start, cut to the step, ps
    end: end, cut to the step, ps
    parent: index of the piece of the enclosing event in the same step, -1 for none
    self_ps: time without the pieces inside it, ps
    is_first: whether it is the first piece of its event
    """

    row: Indices
    step: Codes
    start: Picoseconds
    end: Picoseconds
    parent: Indices
    self_ps: Picoseconds
    is_first: Mask

    def sum_by_row(self, rows: Indices, step_mask: Mask) -> tuple[Picoseconds, Mask]:
        """Return (self time in ps, whether it begins) of each event row in the selected steps.

        rows: event rows, sorted
        step_mask: selection of steps, bool per step
        """
        chosen = np.flatnonzero(step_mask[self.step])
        at = find_positions(rows, self.row[chosen])
        chosen, at = chosen[at >= 0], at[at >= 0]
        self_ps, begins = np.zeros(len(rows), np.int64), np.zeros(len(rows), bool)
        np.add.at(self_ps, at, self.self_ps[chosen])
        begins[at[self.is_first[chosen]]] = True
        return self_ps, begins


@memoize
def device_work(timeline: Timeline) -> DeviceWork:
    """Return the work of a host's devices; without pieces where it has no steps or no device."""
    planes = (averaged_devices(timeline) or timeline.device_planes) if len(timeline.steps) else ()
    driven = time_matched_devices(timeline)
    parts = [np.zeros((4, 0), np.int64)]
    parts += [
        (_pieces_by_time if plane in driven else _pieces_by_cause)(timeline, plane, _rows(timeline, plane)) for plane in planes
    ]
    pieces = np.concatenate(parts, axis=1)
    row, step, start, end = pieces[:, np.lexsort(pieces[1::-1])]
    parent, inside = _parent_pieces(timeline, row, step), np.zeros(len(row), np.int64)
    np.add.at(inside, parent[parent >= 0], (end - start)[parent >= 0])
    self_ps = np.maximum(end - start - inside, 0)
    return DeviceWork(row.astype(np.int32), step.astype(np.int32), start, end, parent, self_ps, np.diff(row, prepend=-1) != 0)


def _rows(timeline: Timeline, plane: Plane) -> Indices:
    """Return the rows of events on a device's own lines; events without duration are executions,
    too.
    """
    return union_rows(*(timeline.trace.lines.row_numbers(line) for line in timeline.device_lines(plane)))


def _pieces_by_time(timeline: Timeline, plane: Plane, rows: Indices) -> Indices:
    """Return (row, step, start, end) of every piece of the events that lies in the time of a
    step.
    """
    steps, (start, end) = timeline.steps, (timeline.trace.start[rows], timeline.trace.end[rows])
    order = np.argsort(steps.start, kind="stable")
    low = np.searchsorted(np.maximum.accumulate(steps.end[order]), start, side="right")
    high = np.searchsorted(steps.start[order], np.maximum(end, start + 1))
    count = np.maximum(high - low, 0)
    event = np.repeat(np.arange(len(rows)), count)
    step = order[np.arange(len(event)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)]
    begin, stop = np.maximum(start[event], steps.start[step]), np.minimum(end[event], steps.end[step])
    return _pieces(rows[event], step, begin, stop, end[event] > start[event])


def _pieces_by_cause(timeline: Timeline, plane: Plane, rows: Indices) -> Indices:
    """Return (row, step, start, end) of the part of each event in the time of the step that caused
    it.
    """
    rows = rows[timeline.step_index[rows] >= 0]
    step = timeline.step_index[rows].astype(np.int64)
    start, end = step_event_times(timeline, rows, (plane,))
    begin, stop = np.maximum(start, timeline.steps.start[step]), np.minimum(end, timeline.steps.end[step])
    return _pieces(rows, step, begin, stop, end > start)


def _pieces(row: Indices, step: Codes, start: Picoseconds, end: Picoseconds, lasts: Mask) -> Indices:
    """Return the pieces that lie in their step; of events without duration, those that begin in
    it.
    """
    return np.asarray(np.stack((row, step, start, end))[:, np.where(lasts, end > start, end == start)])


def _parent_pieces(timeline: Timeline, row: Indices, step: Codes) -> Indices:
    """Return for each piece the index of the enclosing event's piece in the same step; -1 for
    none.
    """
    rows = distinct(row)
    holder = timeline.trace.compute_nesting(rows)[0]
    parent = holder[np.searchsorted(rows, row)].astype(np.int64)
    steps = len(timeline.steps)
    return find_positions(row * steps + step, np.where(parent >= 0, parent * steps + step, -1))

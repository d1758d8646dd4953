# SPDX-License-Identifier: Apache-2.0
"""The workers of a run (hosts or devices) as they are compared: their steps, the time of each
category, and the time before each step's first collective.

A worker's time before the first collective of a step contains no waiting for other workers. What
follows takes equally long on all of them, because an all-reduce ends when the last worker has
arrived.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize, once
from outpace._dataclass import dataclass
from outpace.metrics.facts.collectives import collective_rows, covered_step_ps
from outpace.metrics.facts.step_breakdown import CATEGORY_COLUMNS, category_times, step_breakdown
from outpace.model.arrays import Indices, Mask, Numbers, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.trace import Plane, dialect
from outpace.trace.algorithms import find_slice


@dataclass(frozen=True, eq=False)
class LeadTimes:
    """The time of each step before its first collective.

    has_collective: whether the step has a collective, bool per step
    lead_ps: time from the step's start to its first collective, ps per step
    category_ps: that time by category, ps per step
    collectives_end_ps: end of the step's last collective, ps on the host's clock
    """

    has_collective: Mask
    lead_ps: Picoseconds
    category_ps: dict[str, Picoseconds]
    collectives_end_ps: Picoseconds


@dataclass(frozen=True, eq=False)
class Worker:
    """A host, or one of a host's several devices, without its events, so that it can be sent to
    another process.

    name: name of the worker
    host: name of its host
    is_device: whether it is a device of a host with several
    number: number of each step
    start: start of each step, ps
    duration: length of each step, ps
    steady_rows: steps that enter statistics
    category_ps: time by category, ps per step
    collective_ps: time in which a collective ran, ps per step
    collectives: (count, total time in ps) by type
    lead_times: time before each step's first collective; None where no steady step has one
    """

    name: str
    host: str
    is_device: bool
    number: Numbers
    start: Picoseconds
    duration: Picoseconds
    steady_rows: Indices
    category_ps: dict[str, Picoseconds]
    collective_ps: Picoseconds
    collectives: dict[str, tuple[int, int]]
    lead_times: LeadTimes | None

    @once
    def mean_step_ps(self) -> float:
        """Mean length of a steady step, ps."""
        return float(self.duration[self.steady_rows].mean())

    @once
    def mean_category_ps(self) -> tuple[float, ...]:
        """Mean time of each category in a steady step, ps, in the order of
        `CATEGORY_COLUMNS`.
        """
        return tuple(float(self.category_ps[name][self.steady_rows].mean()) for name in CATEGORY_COLUMNS)

    @once
    def steady_collective_steps(self) -> Indices:
        """Rows of the steady steps that have a collective."""
        return (
            self.steady_rows[self.lead_times.has_collective[self.steady_rows]]
            if self.lead_times is not None
            else self.steady_rows[:0]
        )

    @once
    def steady_lead_ps(self) -> Values:
        """Time before the first collective of each step in `steady_collective_steps`, float64
        ps.
        """
        return np.asarray(
            self.lead_times.lead_ps[self.steady_collective_steps] if self.lead_times is not None else (), np.float64
        )

    @once
    def mean_lead_ps(self) -> float:
        """Mean time of a steady step before its first collective, ps; NaN where no step has a
        collective.
        """
        return float(self.steady_lead_ps.mean()) if len(self.steady_collective_steps) else float("nan")

    @once
    def mean_lead_category_ps(self) -> tuple[float, ...]:
        """Mean time before the first collective by category, ps; NaN where no step has a
        collective.

        The order is that of `CATEGORY_COLUMNS`.
        """
        times = self.lead_times.category_ps if self.lead_times is not None else {}
        return tuple(
            float(times[name][self.steady_collective_steps].mean()) if len(self.steady_collective_steps) else float("nan")
            for name in CATEGORY_COLUMNS
        )


@memoize
def workers(run: Run) -> tuple[Worker, ...]:
    """Return all workers with steps: the hosts, and instead of a host with several devices, its
    devices.
    """
    table, all_workers = step_breakdown(run).steps, list[Worker]()
    for timeline in run.hosts:
        planes = timeline.device_planes
        if len(timeline.steps) == 0:
            continue
        if len(planes) < 2:
            host_steps = table.filter_by("host", timeline.host)
            all_workers.append(_worker(timeline.host, timeline, None, {name: host_steps[name] for name in CATEGORY_COLUMNS}))
        else:
            all_workers += [_device(timeline, plane) for plane in planes]
    return tuple(all_workers)


def _device(timeline: Timeline, plane: Plane) -> Worker:
    """Return a device as a worker; time of a step in which it did nothing itself is "all
    others".
    """
    name = f"{timeline.host} {plane.name.removeprefix(dialect.DEVICE_PREFIX)}"
    return _worker(name, timeline, plane, category_times(timeline, (plane,)))


def _worker(name: str, timeline: Timeline, plane: Plane | None, times: dict[str, Picoseconds]) -> Worker:
    steps, rows_of = timeline.steps, collective_rows(timeline)
    if plane is not None:
        only = timeline.trace.rows_of(plane)
        rows_of = {kind: rows[find_slice(rows, only)] for kind, rows in rows_of.items()}
    rows_of = {kind: rows for kind, rows in rows_of.items() if len(rows)}
    every = np.concatenate(list(rows_of.values()) or [np.zeros(0, np.int64)])
    return Worker(
        name=name,
        host=timeline.host,
        is_device=plane is not None,
        number=steps.number,
        start=steps.start,
        duration=steps.duration,
        steady_rows=steps.steady_rows,
        category_ps={key: np.asarray(values) for key, values in times.items()},
        collective_ps=covered_step_ps(timeline, every),
        collectives={kind: (len(rows), int(covered_step_ps(timeline, rows).sum())) for kind, rows in rows_of.items()},
        lead_times=_lead_times(timeline, plane, every),
    )


def _lead_times(timeline: Timeline, plane: Plane | None, rows: Indices) -> LeadTimes | None:
    """Return the times before the collectives at `rows`; None where no steady step has a
    collective.
    """
    steps, trace = timeline.steps, timeline.trace
    step = timeline.step_index[rows]
    first, last = steps.end.copy(), steps.start.copy()
    np.minimum.at(first, step, trace.start[rows])
    np.maximum.at(last, step, trace.end[rows])
    has_collective = np.bincount(step, minlength=len(steps)) > 0
    if not has_collective[steps.steady_rows].any():
        return None
    first = np.maximum(first, steps.start)
    times = category_times(timeline, None if plane is None else (plane,), (steps.start, first, timeline.step_index))
    return LeadTimes(has_collective, first - steps.start, times, last)

# SPDX-License-Identifier: Apache-2.0
"""`Timeline`: one host's trace with its steps, ops and threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import NamedTuple

import numpy as np

from outpace._caching import ResultCache, once
from outpace._dataclass import dataclass
from outpace.model import median
from outpace.model.arrays import Indices, Mask
from outpace.timeline.builds import find_first_builds
from outpace.timeline.causality import LINK_STATS, assign_steps, find_context_links, find_launches
from outpace.timeline.event_names import EventFlag, EventNames, event_names
from outpace.timeline.execution_steps import refine_async_steps, refine_marked_steps
from outpace.timeline.hlo.modules import HloModules
from outpace.timeline.marks import (
    build_steps_from_lines,
    build_steps_from_marks,
    find_device_step_lines,
    find_keras_marks,
    find_step_marks,
)
from outpace.timeline.op_names import Op, OpKind
from outpace.timeline.step_inference import infer_launch_steps, infer_steps
from outpace.timeline.steps import Steps, StepSource, empty_steps
from outpace.trace import EventColumn, Plane, Trace, dialect, store_column
from outpace.trace.algorithms import distinct

_UNIX = 10**17  # time in ns (1973) above which a time is since 1970; times since the start of a capture are far below
_STATS = (  # stats that metrics use, decoded in one pass over the file; a stat that the file lacks costs nothing
    dialect.IS_ROOT,
    dialect.STEP_NUM,
    dialect.TF_FUNCTION_CALL,
    dialect.TRACING_COUNT,
    dialect.EAGER_OP,
    dialect.IS_FUNC,
    dialect.PARENT_ID,
    dialect.ELEMENT_ID,
    dialect.NAME,
    dialect.PARALLELISM,
    dialect.AUTOTUNE,
    dialect.BATCH_SIZE,
    dialect.BUFFERED_MB,
    dialect.TF_OP,
    dialect.HLO_OP,
    dialect.PROGRAM_ID,
    dialect.DATA_TYPE,
    dialect.ALLOCATION_BYTES,
)


class StepAssignment(NamedTuple):
    """Steps of a part of a trace, known from the whole trace: `Timeline`'s `steps`, `step_index`
    and `dispatch_steps`.
    """

    steps: Steps
    step_index: EventColumn
    dispatch_steps: tuple[Steps, EventColumn]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Steps and op instances of one host.

    trace: the host's events.
    use_marks: False hides marks and step lines, so that steps come from inference alone.
    assignment: steps that are known already, for a part of a trace.
    cell_names: names of a notebook's cells, by the file under which each was compiled.
    """

    trace: Trace
    use_marks: bool = True
    assignment: StepAssignment | None = None
    cell_names: Mapping[str, str] = field(default_factory=dict)
    cache: ResultCache = field(default_factory=ResultCache, init=False, repr=False)

    @property
    def host(self) -> str:
        """Name of the host: the profile's file name, which is unique where the host name inside the
        file is not.
        """
        return self.trace.host

    @once
    def _mark_rows(self) -> Indices:
        if self.use_marks:
            return np.zeros(0, np.int64)
        rows = [find_step_marks(self.trace), find_keras_marks(self.trace)]
        rows += [self.trace.lines.row_numbers(line) for _, line in find_device_step_lines(self.trace)]
        return distinct(np.concatenate(rows))

    @once
    def _all_steps(self) -> Steps:
        if self.assignment is not None:
            return self.assignment.steps
        if self.trace.is_partial:
            return empty_steps("a part of the profile is lost")
        find_context_links(self.trace)  # computed first, while little else is in memory
        self.trace.load_stats((*_STATS, *LINK_STATS))
        return replace(
            refine_async_steps(self.trace, *self._host_steps).select_nonzero(), first_builds=find_first_builds(self.trace)
        )

    @once
    def _host_steps(self) -> tuple[Steps, Indices]:
        """(steps as the host's clock or a device's step line has them, rows of marks, which are no
        work of the steps).
        """
        if self.use_marks:
            if len(marks := find_step_marks(self.trace)):
                return refine_marked_steps(
                    self.trace, build_steps_from_marks(self.trace, marks, StepSource.MARKED), marks
                ), marks
            if lines := find_device_step_lines(self.trace):
                hidden = np.concatenate([self.trace.lines.row_numbers(line) for _, line in lines])
                return infer_launch_steps(self.trace, hidden) or build_steps_from_lines(self.trace, lines), hidden
            if len(marks := find_keras_marks(self.trace)):
                return refine_marked_steps(
                    self.trace, build_steps_from_marks(self.trace, marks, StepSource.KERAS_BATCH), marks
                ), marks
        return infer_steps(self.trace, self._mark_rows), self._mark_rows

    @once
    def step_index(self) -> EventColumn:
        """Index of the step that caused events, -1 for none: `step_index[rows]`, int32."""
        if self.assignment is not None:
            return self.assignment.step_index
        index = store_column(assign_steps(self.trace, self._all_steps, self._mark_rows))
        if not self._all_steps.async_dispatch:  # otherwise `dispatch_steps` needs the links again
            self.trace.cache.discard(find_context_links)
        return index

    @once
    def steps(self) -> Steps:
        """The host's steps; empty where a part of the profile is lost."""
        return (
            self._all_steps
            if self.assignment is not None
            else self._all_steps.with_steps_per_execution(self._executions_per_row())
        )

    @once
    def dispatch_steps(self) -> tuple[Steps, EventColumn]:
        """(steps by the host's clock, step of each event): the times at which work is dispatched,
        not those at which devices run it. Memory for the work is allocated at dispatch.
        """
        if self.assignment is not None:
            return self.assignment.dispatch_steps
        if self.trace.is_partial or not self._all_steps.async_dispatch or self._host_steps[0].async_dispatch:
            return self.steps, self.step_index
        steps = replace(self._host_steps[0], first_builds=self._all_steps.first_builds)
        return steps, store_column(assign_steps(self.trace, steps, self._mark_rows))

    def _executions_per_row(self) -> int:
        """Return Keras' `steps_per_execution`: how often one call requests input from its busiest
        iterator. Input calls of an eager loop in Python are left out, because it may make any
        number of them: a validation within the step reads every batch.
        """
        steps = self._all_steps
        requests = event_names(self.trace).rows(EventFlag.INPUT_REQUEST)
        requests = requests[~self._nested_mask(requests, EventFlag.EAGER_INPUT)]
        if len(steps) == 0 or len(requests) == 0:
            return 1
        ids, step = self.trace.stat(dialect.ID), self.step_index[requests]
        requests, step = requests[step >= 0], step[step >= 0]
        # The first event with an id after the request is nested in it: it is the iterator
        below = np.searchsorted(ids.rows, requests.astype(np.int32), side="right")
        below = np.minimum(below, max(len(ids) - 1, 0))
        if len(requests) == 0 or len(ids) == 0:
            return 1
        pairs, count = np.unique(np.stack((step.astype(np.int64), ids.ints[below])), axis=1, return_counts=True)
        busiest = np.zeros(len(steps), np.int64)
        np.maximum.at(busiest, pairs[0], count)
        return max(1, round(median(busiest[busiest > 0])))

    def _nested_mask(self, rows: Indices, what: EventFlag) -> Mask:
        """Return a boolean per event: whether it is nested in an event with one of these flags."""
        trace, outer = self.trace, event_names(self.trace).mask(what)
        mask, parent = np.zeros(len(rows), bool), trace.parent[rows]
        while (parent >= 0).any():
            mask |= (parent >= 0) & outer[trace.name[parent]]
            parent = np.where(parent >= 0, trace.parent[parent], -1)
        return mask

    @property
    def ops(self) -> tuple[Op, ...]:
        """Op of each event name, one entry per row of `trace.names`."""
        return self.event_names.ops

    @property
    def event_names(self) -> EventNames:
        """Classification of the trace's event names."""
        return event_names(self.trace)

    def op_kind_mask(self, *kinds: OpKind) -> Mask:
        """Return a boolean over `trace.names`: whether the name is an op of these kinds."""
        return self.event_names.op_kind_mask(*kinds)

    @property
    def launches(self) -> tuple[Indices, Indices]:
        """(rows of the host's calls, rows of what each launched on a device). The latter are
        sorted, and each has at most one call.
        """
        return find_launches(self.trace)

    @once
    def hlo_modules(self) -> HloModules:
        """The XLA programs in the profile."""
        return HloModules(self.trace, self.cell_names)

    @once
    def host_planes(self) -> tuple[Plane, ...]:
        """Planes of the host's threads."""
        return tuple(p for p in self.trace.planes if p.name == dialect.HOST_PLANE)

    @once
    def device_planes(self) -> tuple[Plane, ...]:
        """Planes of devices that recorded events."""
        return tuple(
            p for p in self.trace.find_planes(dialect.DEVICE_PREFIX) if self.trace.rows_of(p).stop > self.trace.rows_of(p).start
        )

    def device_lines(self, plane: Plane) -> list[int]:
        """Return a device's own lines, streams or XLA ops, without the lines that the profiler
        derived from them.
        """
        lines = [i for i in plane.lines if self.trace.lines.names[i] not in dialect.DERIVED_LINES]
        xla = [i for i in lines if self.trace.lines.names[i] == "XLA Ops"]
        return xla or [i for i in lines if not self.trace.lines.names[i].startswith(("XLA", "Async", "Overlay", "_counters_"))]

    @once
    def unix_origin_ns(self) -> int | None:
        """Unix time of the trace's time zero on the host's clock, ns; None where it is unknown."""
        if self.trace.origin_ns > _UNIX:  # the file's lines have absolute times
            return self.trace.origin_ns
        environment = self.trace.find_plane(dialect.ENVIRONMENT_PLANE)
        began = environment.stats.get(dialect.PROFILE_START_TIME) if environment else None
        return began + self.trace.origin_ns if isinstance(began, int) and began > _UNIX else None

    @once
    def zero_ps(self) -> int:
        """Time that is shown as 0 to a reader, ps: the start of the host's earliest event, also
        where the trace has only the events of a window.
        """
        return self.span_ps[0] if self.trace.earliest_ps is None else self.trace.earliest_ps

    @property
    def span_ps(self) -> tuple[int, int]:
        """(first start, last end) of all events, ps."""
        return self.trace.span_ps

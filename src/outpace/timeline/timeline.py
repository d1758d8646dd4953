"""`Timeline`: one host's trace with its steps, ops and threads understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import NamedTuple

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import Derived, once
from outpace.model import median
from outpace.model.arrays import Indices, Mask
from outpace.timeline.builds import first_builds
from outpace.timeline.causality import STATS, contexts, launches, step_of_events
from outpace.timeline.hlo import Programs
from outpace.timeline.infer import infer_steps, launching_steps, steps_of_devices, steps_of_marked
from outpace.timeline.marks import device_step_lines, from_device_lines, from_marks, keras_rows, marked_rows
from outpace.timeline.names import Is, Names, Op, OpKind, names
from outpace.timeline.steps import Steps, StepSource, no_steps
from outpace.trace import ByRow, Plane, Trace, dialect, kept
from outpace.trace.algorithms import distinct

_UNIX = 10**17  # ns: 1973; times since the start of a capture are far below
_WANTED = (  # what metrics ask for, decoded in one pass over the file: what it lacks costs nothing
    dialect.ROOT,
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


class Known(NamedTuple):
    """What is known of the steps of a part of a trace, from the whole of it: `Timeline`'s `steps`, `step_of` and `handed_over`."""

    steps: Steps
    step_of: ByRow
    handed_over: tuple[Steps, ByRow]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Steps and op instances of one host. `use_marks=False` hides marks and step lines, to see what inference alone finds; what is `known`
    is not looked for. `cells`: what a notebook's cells are called, by the file that they were compiled under."""

    trace: Trace
    use_marks: bool = True
    known: Known | None = None
    cells: Mapping[str, str] = field(default_factory=dict)
    derived: Derived = field(default_factory=Derived, init=False, repr=False)

    @property
    def host(self) -> str:
        """Name of the host: the profile's file name, which is unique where the name inside is not."""
        return self.trace.host

    @once
    def _hidden(self) -> Indices:
        if self.use_marks:
            return np.zeros(0, np.int64)
        rows = [marked_rows(self.trace), keras_rows(self.trace)]
        rows += [self.trace.lines.every_row(line) for _, line in device_step_lines(self.trace)]
        return distinct(np.concatenate(rows))

    @once
    def _found(self) -> Steps:
        if self.known is not None:
            return self.known.steps
        if self.trace.partial:
            return no_steps("a part of the profile is lost")
        contexts(self.trace)  # while little else is in memory
        self.trace.load((*_WANTED, *STATS))
        return replace(steps_of_devices(self.trace, *self._of_host).lasting(), builds=first_builds(self.trace))

    @once
    def _of_host(self) -> tuple[Steps, Indices]:
        """The steps as the host, or a device's step line, tells them, and the rows of marks that are no work of theirs."""
        if self.use_marks:
            if len(marks := marked_rows(self.trace)):
                return steps_of_marked(self.trace, from_marks(self.trace, marks, StepSource.MARKED), marks), marks
            if lines := device_step_lines(self.trace):
                hidden = np.concatenate([self.trace.lines.every_row(line) for _, line in lines])
                return launching_steps(self.trace, hidden) or from_device_lines(self.trace, lines), hidden
            if len(marks := keras_rows(self.trace)):
                return steps_of_marked(self.trace, from_marks(self.trace, marks, StepSource.KERAS_BATCH), marks), marks
        return infer_steps(self.trace, self._hidden), self._hidden

    @once
    def step_of(self) -> ByRow:
        """Index of the step that caused events, -1 for none: `step_of[rows]`, int32."""
        if self.known is not None:
            return self.known.step_of
        found = kept(step_of_events(self.trace, self._found, self._hidden))
        if not self._found.ahead:  # else `handed_over` asks again
            self.trace.derived.forget(contexts)
        return found

    @once
    def steps(self) -> Steps:
        """The host's steps."""
        return self._found if self.known is not None else self._found.with_per_row(self._executions_per_row())

    @once
    def handed_over(self) -> tuple[Steps, ByRow]:
        """(the steps by the host's clock, the step of each event): not when devices work, but when the work is handed over to them, which is
        when memory for it is allocated."""
        if self.known is not None:
            return self.known.handed_over
        if self.trace.partial or not self._found.ahead or self._of_host[0].ahead:
            return self.steps, self.step_of
        steps = replace(self._of_host[0], builds=self._found.builds)
        return steps, kept(step_of_events(self.trace, steps, self._hidden))

    def _executions_per_row(self) -> int:
        """Keras' `steps_per_execution`: how often one call asks its busiest iterator for input. A loop of Python asks for itself, as often as
        it likes: of a validation in the step it reads every batch."""
        steps = self._found
        requests = names(self.trace).rows(Is.INPUT_REQUEST)
        requests = requests[~self._within(requests, Is.EAGER_INPUT)]
        if len(steps) == 0 or len(requests) == 0:
            return 1
        ids, step = self.trace.stat(dialect.ID), self.step_of[requests]
        requests, step = requests[step >= 0], step[step >= 0]
        below = np.searchsorted(
            ids.row, requests.astype(np.int32), side="right"
        )  # the first event with an id below: the iterator asked
        below = np.minimum(below, max(len(ids) - 1, 0))
        if len(requests) == 0 or len(ids) == 0:
            return 1
        pairs, count = np.unique(np.stack((step.astype(np.int64), ids.ints[below])), axis=1, return_counts=True)
        busiest = np.zeros(len(steps), np.int64)
        np.maximum.at(busiest, pairs[0], count)
        return max(1, round(median(busiest[busiest > 0])))

    def _within(self, rows: Indices, what: Is) -> Mask:
        """Whether each event lies in another one of its thread that is such."""
        trace, outer = self.trace, names(self.trace).are(what)
        found, at = np.zeros(len(rows), bool), trace.parent[rows]
        while (at >= 0).any():
            found |= (at >= 0) & outer[trace.name[at]]
            at = np.where(at >= 0, trace.parent[at], -1)
        return found

    @property
    def ops(self) -> tuple[Op, ...]:
        """The op that each event name says, one entry per row of `trace.names`."""
        return self.names.ops

    @property
    def names(self) -> Names:
        """What each event name says."""
        return names(self.trace)

    def is_kind(self, *kinds: OpKind) -> Mask:
        """Boolean over `trace.names`: is the name an op of these kinds."""
        return self.names.of_kind(*kinds)

    @property
    def launches(self) -> tuple[Indices, Indices]:
        """(rows of the host's calls, rows of what each launched on a device); the latter are sorted, and each has one call at most."""
        return launches(self.trace)

    @once
    def programs(self) -> Programs:
        """The XLA programs that the profile carries."""
        return Programs(self.trace, self.cells)

    @once
    def host_planes(self) -> tuple[Plane, ...]:
        """The planes with the host's threads."""
        return tuple(p for p in self.trace.planes if p.name == dialect.HOST)

    @once
    def device_planes(self) -> tuple[Plane, ...]:
        """Planes of devices that recorded events."""
        return tuple(
            p for p in self.trace.planes_like(dialect.DEVICES) if self.trace.rows_of(p).stop > self.trace.rows_of(p).start
        )

    def device_lines(self, plane: Plane) -> list[int]:
        """A device's own lines: streams or XLA ops, without those that the profiler derived from them."""
        lines = [i for i in plane.lines if self.trace.lines.names[i] not in dialect.DERIVED_LINES]
        xla = [i for i in lines if self.trace.lines.names[i] == "XLA Ops"]
        return xla or [i for i in lines if not self.trace.lines.names[i].startswith(("XLA", "Async", "Overlay", "_counters_"))]

    @once
    def unix_origin_ns(self) -> int | None:
        """Unix time at which the trace's zero lies on the host's clock, ns; None where the profile does not tell."""
        if self.trace.origin_ns > _UNIX:  # lines that carry absolute time
            return self.trace.origin_ns
        environment = self.trace.plane(dialect.ENVIRONMENT)
        began = environment.stats.get(dialect.PROFILE_START_TIME) if environment else None
        return began + self.trace.origin_ns if isinstance(began, int) and began > _UNIX else None

    @once
    def zero(self) -> int:
        """Where times are counted from for a reader: the start of the host's earliest event, ps, also where only a window's events are here."""
        return self.span[0] if self.trace.first is None else self.trace.first

    @property
    def span(self) -> tuple[int, int]:
        """First start and last end of all events, ps."""
        return self.trace.span

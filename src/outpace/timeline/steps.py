# SPDX-License-Identifier: Apache-2.0
"""`Steps`: the training steps of one host, how they were found, and with what confidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum

import numpy as np

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace.model.arrays import Codes, Indices, Mask, Numbers, Picoseconds
from outpace.timeline.limit_checks import LimitCheck, describe_borderline
from outpace.timeline.span_coverage import Spans, covered_time
from outpace.timeline.steady_state import Exclusion, find_exclusions, find_trend


class StepSource(str, Enum):
    """Method by which steps were found, most trusted first."""

    MARKED = "marked"
    DEVICE_LINE = "device line"
    KERAS_BATCH = "keras batch"
    INFERRED = "inferred"
    NONE = "none"


class Confidence(str, Enum):
    """Confidence in the boundaries of steps."""

    CERTAIN = "certain"
    HIGH = "high"
    LOW = "low"


_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of one host in order of time, one row per step.

    source, confidence: how the steps were found, and how sure their boundaries are.
    explanation: sentence on how the steps were found.
    number: step number as the program counts it (or 0, 1, ...); int64.
    start, end: int64 ps.
    line: row of the training thread in `Trace.lines`, or -1; int32.
    complete: whether the capture has the whole step.
    root_row, root_step: `root_row[i]` is an event row that belongs to step `root_step[i]`; events
        below it or caused by it belong to that step too.
    steps_per_execution: training steps per row (Keras' `steps_per_execution`).
    kind: "training" or "prediction".
    groups: step by `group_id` stat, in a file that was saved after grouping.
    async_dispatch: whether the program dispatches work long before it runs, and the steps are those
        of the work. An event then belongs to the step in whose time it runs, whichever call
        dispatched it.
    limit_checks: decisions by limits in finding the steps.
    first_builds: (start, end) of the first builds of functions, ps, sorted by start.
    """

    source: StepSource
    confidence: Confidence
    explanation: str
    number: Numbers
    start: Picoseconds
    end: Picoseconds
    line: Codes
    complete: Mask
    root_row: Indices
    root_step: Codes
    steps_per_execution: int = 1
    kind: str = "training"
    groups: Mapping[int, int] = field(default_factory=dict)
    async_dispatch: bool = False
    limit_checks: tuple[LimitCheck, ...] = ()
    first_builds: Spans = (_NONE, _NONE)

    def __len__(self) -> int:
        return len(self.number)

    @once
    def duration(self) -> Picoseconds:
        """Duration of every step, ps."""
        return self.end - self.start

    @once
    def exclusions(self) -> list[Exclusion]:
        """Why each step is excluded from the steady state; `Exclusion.NO` for steady steps."""
        return find_exclusions(self.duration, self.complete, [], self._build_time)

    @once
    def _build_time(self) -> Picoseconds:
        """Time in each step in which functions were built for the first time, ps."""
        return covered_time(self.first_builds, self.start, self.end)

    @once
    def borderline(self) -> list[str]:
        """Sentences on results that would differ with a limit that is a little higher or lower, one
        per limit.
        """
        decisions = list(self.limit_checks)
        find_exclusions(self.duration, self.complete, decisions, self._build_time)
        return describe_borderline(decisions)

    @once
    def trend(self) -> tuple[float, float] | None:
        """(step time at the begin, step time at the end), ps, of a capture in which steps grow
        longer; None where they do not. Steps that buffers fed are no part of it.
        """
        begin = self.exclusions.count(Exclusion.BUFFERED)  # they lead
        return find_trend(self.duration[self.complete_rows][begin:])

    @once
    def complete_rows(self) -> Indices:
        """Indices of the complete steps, steady or not; all steps if none is complete."""
        rows = np.flatnonzero(self.complete)
        return rows if len(rows) else np.arange(len(self))

    @once
    def steady_rows(self) -> Indices:
        """Indices of the steps that statistics use: complete and steady ones, or all steps if there
        are none.
        """
        steady = np.fromiter((not reason.value for reason in self.exclusions), bool, len(self))
        rows = np.flatnonzero(self.complete & steady)
        return rows if len(rows) else np.arange(len(self))

    def number_mask(self, first: int | None, last: int | None) -> Mask:
        """Return a boolean per step: whether its number is from `first` to `last`, both included;
        None means no bound.
        """
        chosen = np.ones(len(self), bool)
        if first is not None:
            chosen &= self.number >= first
        if last is not None:
            chosen &= self.number <= last
        return chosen

    @property
    def range_text(self) -> str:
        """Range of the step numbers for a message: "steps 3 to 9", or "no steps"."""
        return f"steps {self.number.min()} to {self.number.max()}" if len(self) else "no steps"

    def select(self, mask: Mask, new_row: Indices | None = None) -> Steps:
        """Return the steps of a mask. `new_row` is needed for a trace with some of the events: it
        maps each event row to its row there, -1 for none.
        """
        number = np.cumsum(mask) - 1
        rows = self.root_row if new_row is None else new_row[self.root_row].astype(self.root_row.dtype)
        roots = mask[self.root_step] & (rows >= 0)
        return replace(
            self,
            number=self.number[mask],
            start=self.start[mask],
            end=self.end[mask],
            line=self.line[mask],
            complete=self.complete[mask],
            root_row=rows[roots],
            root_step=number[self.root_step[roots]].astype(self.root_step.dtype),
            groups={group: int(number[step]) for group, step in self.groups.items() if mask[step]},
        )

    def select_nonzero(self) -> Steps:
        """Return the steps without those of duration 0, of which nothing can be a share."""
        chosen = self.duration > 0
        if chosen.all():
            return self
        return self.select(chosen) if chosen.any() else empty_steps(f"{self.explanation}, and none of them takes any time")

    def with_steps_per_execution(self, steps: int) -> Steps:
        """Return the same rows with `steps` training steps per row."""
        return replace(self, steps_per_execution=steps)


def empty_steps(explanation: str) -> Steps:
    """Return `Steps` without rows, for a host without a repetition; `explanation` is the reason."""
    empty = np.zeros(0, np.int64)
    rows = np.zeros(0, np.int32)
    return Steps(StepSource.NONE, Confidence.LOW, explanation, empty, empty, empty, rows, np.zeros(0, bool), rows, rows)


def build_inferred_steps(
    explanation: str, start: Picoseconds, end: Picoseconds, line: int = -1, root_row: Indices = _NONE, root_step: Codes = _NONE
) -> Steps:
    """Return complete steps from `start` to `end`, numbered from 0; `line`: their thread."""
    return Steps(
        source=StepSource.INFERRED,
        confidence=Confidence.HIGH if len(end) > 2 else Confidence.LOW,
        explanation=explanation,
        number=np.arange(len(end), dtype=np.int64),
        start=start,
        end=end,
        line=np.full(len(end), line, np.int32),
        complete=np.ones(len(end), bool),
        root_row=root_row.astype(np.int32),
        root_step=root_step.astype(np.int32),
    )

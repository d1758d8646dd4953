"""`Steps`: the training steps of one host, how each was found, and how sure that is."""

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
    """How steps were found, most trusted first."""

    MARKED = "marked"
    DEVICE_LINE = "device line"
    KERAS_BATCH = "keras batch"
    INFERRED = "inferred"
    NONE = "none"


class Confidence(str, Enum):
    """How sure the boundaries of a step are."""

    CERTAIN = "certain"
    HIGH = "high"
    LOW = "low"


_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of one host in order of time.

    number: int64 step number as the program counts it (or 0, 1, ...); start, end: int64 ps; line:
    int32 row of the training thread (or -1); complete: whether the capture holds the whole step;
    `root_row[i]` is an event row that belongs to step `root_step[i]`: what happens below it, or is
    caused by it, belongs to the step. `steps_per_execution` is how many training steps one row
    stands for (Keras' `steps_per_execution`). `groups` maps the `group_id` stat of a file that was
    saved grouped to the step. `explanation` says in a sentence how the steps were found; `kind` is
    "training" or "prediction". `async_dispatch`: the program hands work over long before it runs,
    and the steps are those of the work: what runs in a step's time belongs to it, whichever call
    handed it over. `limit_checks`: what was held against limits to find them. `first_builds`:
    (start, end) of the first builds of functions, ps, sorted by start.
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
        """Length of every step, ps."""
        return self.end - self.start

    @once
    def exclusions(self) -> list[Exclusion]:
        """Why each step is no part of the steady state; `Exclusion.NO` for those that are."""
        return find_exclusions(self.duration, self.complete, [], self._build_time)

    @once
    def _build_time(self) -> Picoseconds:
        """Of each step how long functions were built for the first time in it, ps."""
        return covered_time(self.first_builds, self.start, self.end)

    @once
    def borderline(self) -> list[str]:
        """What would have been found otherwise with a limit that is a little higher or lower, a
        sentence for each.
        """
        decisions = list(self.limit_checks)
        find_exclusions(self.duration, self.complete, decisions, self._build_time)
        return describe_borderline(decisions)

    @once
    def trend(self) -> tuple[float, float] | None:
        """How long steps take at the begin and at the end of a capture in which they grow, ps; None
        where they do not.
        """
        return find_trend(self.duration[self.complete_rows])

    @once
    def complete_rows(self) -> Indices:
        """Indices of the steps that the capture holds whole, steady or not; all if none is."""
        rows = np.flatnonzero(self.complete)
        return rows if len(rows) else np.arange(len(self))

    @once
    def steady_rows(self) -> Indices:
        """Indices of the steps that statistics are made of: complete ones of the steady state, or
        all if none is.
        """
        steady = np.fromiter((not reason.value for reason in self.exclusions), bool, len(self))
        rows = np.flatnonzero(self.complete & steady)
        return rows if len(rows) else np.arange(len(self))

    def number_mask(self, first: int | None, last: int | None) -> Mask:
        """Whether each step's number is from `first` to `last`, both included; None is no bound."""
        chosen = np.ones(len(self), bool)
        if first is not None:
            chosen &= self.number >= first
        if last is not None:
            chosen &= self.number <= last
        return chosen

    @property
    def range_text(self) -> str:
        """Which steps there are, for a message: "steps 3 to 9", or "no steps"."""
        return f"steps {self.number.min()} to {self.number.max()}" if len(self) else "no steps"

    def select(self, mask: Mask, new_row: Indices | None = None) -> Steps:
        """Some of the steps; of a trace that holds some of the events: `new_row` says for each
        event its row there, -1 for none.
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
        """Those that take time: what takes none is no step, and nothing is a share of it."""
        chosen = self.duration > 0
        if chosen.all():
            return self
        return self.select(chosen) if chosen.any() else empty_steps(f"{self.explanation}, and none of them takes any time")

    def with_steps_per_execution(self, steps: int) -> Steps:
        """The same rows, each standing for `steps` training steps."""
        return replace(self, steps_per_execution=steps)


def empty_steps(explanation: str) -> Steps:
    """The value for a host on which nothing repeats."""
    empty = np.zeros(0, np.int64)
    rows = np.zeros(0, np.int32)
    return Steps(StepSource.NONE, Confidence.LOW, explanation, empty, empty, empty, rows, np.zeros(0, bool), rows, rows)

"""Captures that hold little else than compilation: their steps are no steady state, and their mean misleads."""

from __future__ import annotations

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.program.no_steps import later
from outpace.metrics.program.step_breakdown import StepBreakdown
from outpace.model import Category, Unit, humanize, median
from outpace.model.units import counted
from outpace.timeline import Run

_MOSTLY = 0.5  # of the steps' time
_NONE = 0.01  # of a step: one that compiles for less only runs
_FEWEST = 50  # steps that only run: a few of them, each after a compilation, only hand work to a device that is idle


@dataclass(frozen=True)
class Compiling:
    """`steps` of the `among` captured ones compile; those that only run take `running` ps (median; None: too few of them)."""

    steps: int
    among: int
    running: float | None

    def told(self, run: Run) -> str:
        """A line for the confidence in the report."""
        which = f"{self.steps} of {counted(self.among, 'step')} compile" if self.steps < self.among else "all of them compile"
        rest = f" ({humanize(self.running, Unit.PS)} without)" if self.running is not None else ""
        return f"{which}{rest}: no steady state yet, unless it goes on; capture later: {later(run)}"


def compiling(breakdown: StepBreakdown) -> Compiling | None:
    """What is to be said of steps that mostly compile; None for others."""
    whole = breakdown.whole
    duration, built = whole["duration_ps"].astype(np.float64), breakdown.category(Category.COMPILATION)
    if not len(whole) or built.sum() < _MOSTLY * duration.sum():
        return None
    runs = duration[built < _NONE * duration]
    return Compiling(len(whole) - len(runs), len(whole), median(runs) if len(runs) >= _FEWEST else None)

# SPDX-License-Identifier: Apache-2.0
"""Captures that consist mostly of compilation: their steps are no steady state, and their mean
misleads.
"""

from __future__ import annotations

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.facts.missing_steps import later_capture_command
from outpace.metrics.facts.step_breakdown import StepBreakdown
from outpace.model import Category, Unit, humanize, median
from outpace.model.units import format_count
from outpace.timeline import Run

_MOSTLY = 0.5  # minimum share of the steps' time in compilation
_NONE = 0.01  # maximum share of a step in compilation for the step to count as running only
# Minimum number of steps that only run: a few of them, each after a compilation, only dispatch work
# to an idle device.
_FEWEST = 50


@dataclass(frozen=True)
class CompilingSteps:
    """Steps that mostly compile.

    count: number of steps that compile.
    step_count: number of captured steps.
    plain_step_ps: median time of the steps that only run, ps; None where these are too few.
    """

    count: int
    step_count: int
    plain_step_ps: float | None

    def render_caveat(self, run: Run) -> str:
        """Return a line for the report's confidence section."""
        which = (
            f"{self.count} of {format_count(self.step_count, 'step')} compile"
            if self.count < self.step_count
            else "all of them compile"
        )
        rest = f" ({humanize(self.plain_step_ps, Unit.PS)} without)" if self.plain_step_ps is not None else ""
        return f"{which}{rest}: no steady state yet, unless it goes on; capture later: {later_capture_command(run)}"


def find_compiling_steps(breakdown: StepBreakdown) -> CompilingSteps | None:
    """Return the compiling steps where the steps mostly compile; else None."""
    whole = breakdown.steady_steps
    duration, built = whole["duration_ps"].astype(np.float64), breakdown.category_ps(Category.COMPILATION)
    if not len(whole) or built.sum() < _MOSTLY * duration.sum():
        return None
    runs = duration[built < _NONE * duration]
    return CompilingSteps(len(whole) - len(runs), len(whole), median(runs) if len(runs) >= _FEWEST else None)

# SPDX-License-Identifier: Apache-2.0
"""The budget of a step: the time of the steady step and of its categories, on one base for all
findings of a report.

The base is the step without the profiler where the capture measured it, else the recorded step. A
profiler slows a step down; the categories' shares are those of the recorded steps, and are the less
certain the larger the slowdown (`profiling_share`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.partial_steps import partial_step_reason
from outpace.metrics.facts.step_breakdown import StepBreakdown, step_breakdown
from outpace.model import OUTSIDE_STEPS, Category, Saving, median
from outpace.timeline import Run, Timeline
from outpace.timeline.steady_state import UNEVEN_RATIO, Exclusion, mean_to_median

ALL_HOSTS = ""
_NOTICEABLE = 0.01  # share of the step: a smaller slowdown counts as none
_PS_PER_NS = 1000
_MOST_PER_EVENT = 10_000_000  # ps: largest cost of recording an event, which takes 0.3 to 1 us on a host
_ALIKE = 0.1  # largest relative difference between the mean over all rounds and that of the steady steps
_SAMPLING = 0.05  # share of a step: largest cost of profiling that does not grow with the number of events
_RECORDED_STEP = "recorded step"
_MEAN, _MEDIAN = "mean", "median"
_PLAIN_STEP = "step without the profiler"


@dataclass(frozen=True)
class Budget:
    """The time of a steady step, and where it goes.

    step_ps: the base, ps
    base: description of the base
    steps: number of steps that the base averages
    category_shares: share of the steady step by category key; under `OUTSIDE_STEPS`, time between
        steps, excess of slow steps and compilation in single steps, as a share of the time from the
        first step to the last
    host_weights: each host's share of the steps' time, by host; they sum to 1
    profiling_share: share of the recorded step by which profiling made it longer; 0 where the
        capture did not measure it
    is_whole_step: whether these are whole training steps; for others no saving is known
    gap_share: share of the time from the first step to the last that no step covers
    """

    step_ps: float
    base: str
    steps: int
    category_shares: dict[str, float]
    host_weights: dict[str, float]
    profiling_share: float = 0.0
    is_whole_step: bool = True
    gap_share: float = 0.0

    @property
    def cycle_ps(self) -> float:
        """Time from the start of a step to the start of the next one, ps."""
        return self.step_ps / (1 - self.gap_share) if self.gap_share < 1 else self.step_ps


@memoize
def budgets(run: Run) -> dict[str, Budget]:
    """Return the budget of every host with steps, by host.

    The entry `ALL_HOSTS` is the budget of all hosts that execute the main program.
    """
    breakdown = step_breakdown(run)
    by_host = {t.host: _budget(breakdown.select_hosts(t.host), [t], run) for t in run.hosts if len(t.steps)}
    if by_host:
        hosts = main_program_hosts(run)
        by_host[ALL_HOSTS] = _budget(breakdown.select_hosts(*hosts), [t for t in run.hosts if t.host in hosts], run)
    whole = not partial_step_reason(run)
    return {host: replace(budget, is_whole_step=whole) for host, budget in by_host.items()}


def category_share(run: Run, category: Category) -> float:
    """Return a category's share of the steady step, over all hosts of the main program; 0 without
    steps.
    """
    budget = budgets(run).get(ALL_HOSTS)
    return budget.category_shares[category.value] if budget else 0.0


def _budget(breakdown: StepBreakdown, timelines: list[Timeline], run: Run) -> Budget:
    whole = breakdown.steady_steps
    total = float(whole["duration_ps"].sum())
    shares = {c.value: float(breakdown.category_ps(c, whole).sum()) / total if total else 0.0 for c in Category}
    shares[OUTSIDE_STEPS] = float(
        np.mean([compute_gap_share(t) + excess_share(t) + _rebuild_share(breakdown, t) for t in timelines])
    )
    between = float(np.mean([compute_gap_share(t) for t in timelines]))
    recorded = total / max(len(whole), 1)
    times = {t.host: float(whole.filter_by("host", t.host)["duration_ps"].sum()) for t in timelines}
    weights = {host: time / total if total else 1 / len(times) for host, time in times.items()}
    costs = [cost.slowdown for t in timelines if (cost := profiling_cost(run, t)) is not None and _holds(cost, t)]
    slower = median(costs) if len(costs) == len(timelines) else 0.0
    if slower >= _NOTICEABLE:
        return Budget(
            recorded / (1 + slower), _PLAIN_STEP, len(whole), shares, weights, slower / (1 + slower), gap_share=between
        )
    return Budget(recorded, _RECORDED_STEP, len(whole), shares, weights, gap_share=between)


def _holds(cost: ProfilingCost, timeline: Timeline) -> bool:
    """Whether the cost of profiling one step holds for all steps.

    Rare steps are slowed down by another factor, which no median shows.
    """
    even = cost.average == _MEAN or mean_to_median(timeline.steps.duration[timeline.steps.steady_rows]) < UNEVEN_RATIO
    return even and cost.is_plausible


def _events(timeline: Timeline) -> float:
    """Return the number of events of all threads and devices per row of steps; recording each has a
    cost.
    """
    return len(timeline.trace) / max(1, len(timeline.steps))


def compute_gap_share(timeline: Timeline) -> float:
    """Return the share of the time from the first step's start to the last one's end that no step
    covers.
    """
    steps = timeline.steps
    span = int(steps.end.max() - steps.start.min())
    return max(0.0, 1 - int(steps.duration.sum()) / span) if span > 0 else 0.0


def excess_share(timeline: Timeline, aside: Exclusion = Exclusion.SLOW) -> float:
    """Return the time that excluded steps take beyond the steady step.

    aside: reason of the exclusion of these steps

    The unit is a share of the time from the first step's start to the last one's end.
    """
    steps = timeline.steps
    slow = np.array([why is aside for why in steps.exclusions], bool)
    span = int(steps.end.max() - steps.start.min())
    longer = float((steps.duration[slow] - steps.duration[steps.steady_rows].mean()).sum()) if slow.any() else 0.0
    return longer / span if span > 0 else 0.0


def _rebuild_share(breakdown: StepBreakdown, timeline: Timeline) -> float:
    """Return the time that single excluded steps spent on compiling.

    What was built after the first steps may be built again. The unit is a share of the time from
    the first step's start to the last one's end.
    """
    rows = breakdown.steps.filter_by("host", timeline.host)
    single = rows["aside"] == Exclusion.ONE_OFF.value
    span = int(timeline.steps.end.max() - timeline.steps.start.min())
    return float(breakdown.category_ps(Category.COMPILATION, rows)[single].sum()) / span if span > 0 else 0.0


class ProfilingCost(NamedTuple):
    """The length of a step without the profiler and with it.

    unprofiled_ps: step without the profiler, ps
    profiled_ps: step with the profiler, ps
    event_count: number of events per step
    average: which average these times are (mean or median)
    when: when the unprofiled steps were measured, "before" or "after" the profiled ones
    """

    unprofiled_ps: float
    profiled_ps: float
    event_count: float
    average: str = _MEDIAN
    when: str = "before"

    @property
    def slowdown(self) -> float:
        """Relative slowdown of the step while it was profiled."""
        return self.profiled_ps / self.unprofiled_ps - 1

    @property
    def is_plausible(self) -> bool:
        """Whether recording so many events can have slowed the step down so much; else the program
        changed.
        """
        return self.profiled_ps - self.unprofiled_ps <= _SAMPLING * self.profiled_ps + _MOST_PER_EVENT * self.event_count


def _cycle(timeline: Timeline) -> float:
    """Return the mean time from the start of a steady step to the start of the next one, ps."""
    return float(timeline.steps.duration[timeline.steps.steady_rows].mean()) / max(1 - compute_gap_share(timeline), 1e-9)


def profiling_cost(run: Run, timeline: Timeline) -> ProfilingCost | None:
    """Return the cost of profiling the steps; the caller has to check `ProfilingCost.is_plausible`.

    Return None where the capture did not measure it, where steps grow by themselves, so that later
    ones take longer anyway, or where the mean contains something that steady steps do not.
    """
    noted = run.record(timeline.host).get("overhead") or {}
    before, during, after = (noted.get(f"{when}_ns") or () for when in ("before", "during", "after"))
    if timeline.steps.trend is not None:
        return None
    if noted.get("rounds") and during and after:
        if not 1 - _ALIKE <= during[0] * _PS_PER_NS / _cycle(timeline) <= 1 + _ALIKE:
            return None
        return ProfilingCost(after[0] * _PS_PER_NS, during[0] * _PS_PER_NS, _events(timeline), _MEAN, "after")
    if len(before) < 2 or len(during) < 2:
        return None
    return ProfilingCost(median(before) * _PS_PER_NS, median(during) * _PS_PER_NS, _events(timeline))


def profiling_slowdown_ps(run: Run, timeline: Timeline) -> float:
    """Return by how much a step was slower while it was profiled than right before and after, ps.

    Return 0 where the capture did not measure it, or profiling can't be the cause.
    """
    noted = run.record(timeline.host).get("overhead") or {}
    plain, profiled = [*(noted.get("before_ns") or ()), *(noted.get("after_ns") or ())], noted.get("during_ns") or ()
    if noted.get("rounds"):
        cost = profiling_cost(run, timeline)
    elif plain and profiled:
        cost = ProfilingCost(median(plain) * _PS_PER_NS, median(profiled) * _PS_PER_NS, _events(timeline))
    else:
        return 0.0
    return max(0.0, cost.profiled_ps - cost.unprofiled_ps) if cost is not None and cost.is_plausible else 0.0


def build_saving(
    share: float, *takes_from: Category | str, assumes: str, whole_line: bool = False, sampled: float = 0.0
) -> Saving | None:
    """Return an upper bound as a saving: `share` of the steady step; None where that is 0.

    whole_line, sampled: see `Saving`
    """
    if share <= 0:
        return None
    keys = tuple(key.value if isinstance(key, Category) else key for key in takes_from)
    return Saving(0.0, min(share, 1.0), keys, assumes, whole_line=whole_line, sampled=sampled)


def build_category_saving(breakdown: StepBreakdown, category: Category, assumes: str, fraction: float = 1.0) -> Saving | None:
    """Return an upper bound as a saving: all time of a category in the steady steps, or a fraction
    of it.
    """
    whole = breakdown.steady_steps
    total = float(whole["duration_ps"].sum())
    return build_saving(
        fraction * float(breakdown.category_ps(category, whole).sum()) / total if total else 0.0, category, assumes=assumes
    )

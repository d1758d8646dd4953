# SPDX-License-Identifier: Apache-2.0
"""The overview's tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.capture_setup import device_names, framework_versions
from outpace.metrics.facts.step_breakdown import StepBreakdown
from outpace.model import Category, Row, Table, median
from outpace.timeline import Run, Timeline
from outpace.timeline.steady_state import UNEVEN_RATIO
from outpace.tools.overview.schema import AVERAGE, HOSTS, TOP_OPS


@dataclass(frozen=True)
class MeanStep:
    """The mean step over the complete steps of all hosts.

    step_count: number of steps.
    mean_ps: mean step time, ps.
    median_ps: median step time, ps.
    std_ps: standard deviation of the step time, ps.
    table: table `AVERAGE`, a row per category.
    """

    step_count: int
    mean_ps: float
    median_ps: float
    std_ps: float
    table: Table

    @property
    def is_uneven(self) -> bool:
        """Whether the mean is so far above the median that few steps determine it."""
        return self.mean_ps >= UNEVEN_RATIO * self.median_ps

    def share(self, category: Category) -> float:
        """Return a category's share of the mean step time; 0 without steps."""
        row = self.table["key"].tolist().index(category.value)
        return float(self.table["fraction"][row])


def compute_mean_step(breakdown: StepBreakdown) -> MeanStep:
    """Return the mean step with the mean and standard deviation of each category."""
    whole = breakdown.steady_steps
    duration = whole["duration_ps"].astype(np.float64)
    mean = float(duration.mean()) if len(duration) else 0.0
    rows = []
    for category in Category:
        values = breakdown.category_ps(category, whole)
        value = float(values.mean()) if len(values) else 0.0
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        named = {"category": category.label, "key": category.value}
        rows.append(AVERAGE.row(named, mean_ps=value, deviation_ps=spread, fraction=value / mean if mean else 0.0))
    table = AVERAGE.build(rows)
    deviation = float(duration.std(ddof=1)) if len(duration) > 1 else 0.0
    return MeanStep(len(duration), mean, median(duration) if len(duration) else 0.0, deviation, table)


@dataclass(frozen=True)
class StepRate:
    """How the steps of `compute_mean_step` follow each other.

    steps_per_second: training steps per second of one host.
    gap_ps: mean time from the end of a step to the start of the next one, ps.
    outside_share: share of the time from the first step to the last that no step covers.
    """

    steps_per_second: float
    gap_ps: float
    outside_share: float


def compute_step_rate(run: Run, mean_step: MeanStep) -> StepRate:
    """Return the step rate over the hosts of the main program, which are the hosts of `mean_step`.
    The steps of one host do not overlap.
    """
    gaps, count, spans, per_row = 0.0, 0, 0, 1
    for steps in (run.by_host[host].steps for host in main_program_hosts(run)):
        span = int(steps.end.max() - steps.start.min())
        gaps, count, spans = gaps + max(0, span - int(steps.duration.sum())), count + len(steps) - 1, spans + max(span, 0)
        per_row = max(per_row, steps.steps_per_execution)
    between = gaps / count if count else 0.0
    cycle = mean_step.mean_ps + between
    return StepRate(per_row * 1e12 / cycle if cycle > 0 else 0.0, between, gaps / spans if spans else 0.0)


def compute_precision_shares(breakdown: StepBreakdown) -> tuple[float, float] | None:
    """Return the shares of device compute time in 16 and in 32 bits; None without device
    compute.
    """
    half = float(breakdown.category_ps(Category.DEVICE_COMPUTE_16).sum())
    full = float(breakdown.category_ps(Category.DEVICE_COMPUTE_32).sum())
    return (half / (half + full), full / (half + full)) if half + full else None


def compute_hosts(run: Run, breakdown: StepBreakdown) -> Table:
    """Return table `HOSTS`: the environment of the run, one row per host."""
    whole = breakdown.steady_steps
    return HOSTS.build([_host(run, t, whole) for t in run.hosts])


def _host(run: Run, timeline: Timeline, whole: Table) -> Row:
    """Return the row of `HOSTS` for one host. `whole` has the steady steps of all hosts."""
    durations = whole.filter_by("host", timeline.host)["duration_ps"]
    cores = run.core_count(timeline)
    planes = timeline.device_planes
    return HOSTS.row(
        host=timeline.host,
        steps=len(timeline.steps),
        source=timeline.steps.source.value,
        confidence=timeline.steps.confidence.value,
        mean_ps=float(durations.mean()) if len(durations) else float("nan"),
        events=len(timeline.trace),
        window_ps=timeline.span_ps[1] - timeline.span_ps[0],
        devices=device_names(timeline) or "none (CPU only)",
        device_cores=len(planes),
        cpu_cores=str(cores) if cores else "",
        framework=", ".join(f"{name} {version}" for name, version in framework_versions(run, timeline).items()),
    )


def iter_top_ops(ops: Table, limit: int = 10) -> Iterator[Table]:
    """Yield a table of the ops with most self time, for the device where there is one, and for the
    host.
    """
    for side in ("Device", "Host"):
        rows = ops.take((ops["side"] == side) & ~ops["idle"].astype(bool)).sort_by("self_ps")
        total = float(rows["self_ps"].sum())
        if total == 0:
            continue
        head = rows.take(slice(0, limit))
        fraction = head["self_ps"] / total
        data = {
            "rank": np.arange(1, len(head) + 1),
            "operation": head["name"],
            "category": head["type"],
            "self_fraction": fraction,
            "cumulative_fraction": np.cumsum(fraction),
            "self_ps": head["self_ps"],
            "occurrences": head["count"],
        }
        kind = replace(TOP_OPS, name=f"top_{side.lower()}_ops", title=f"Top {limit} operations on the {side.lower()}")
        yield kind.from_columns(data)

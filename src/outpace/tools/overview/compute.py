"""The overview's tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.machine.captured_with import device_names, versions
from outpace.metrics.program.same_program import main_program
from outpace.metrics.program.step_breakdown import StepBreakdown
from outpace.model import Category, Table, median
from outpace.timeline import Run, Timeline
from outpace.timeline.steady import UNEVEN
from outpace.tools.overview.schema import AVERAGE, HOSTS, TOP_OPS


@dataclass(frozen=True)
class Average:
    """The mean step over the complete steps of all hosts. Times in ps; `rows` is the number of steps, `median` the median one."""

    rows: int
    mean: float
    median: float
    deviation: float
    table: Table

    @property
    def uneven(self) -> bool:
        """Whether few of the steps make the mean."""
        return self.mean >= UNEVEN * self.median

    def share(self, category: Category) -> float:
        """A category's share of the mean step time, 0 without steps."""
        at = self.table["key"].tolist().index(category.value)
        return float(self.table["fraction"][at])


def average(breakdown: StepBreakdown) -> Average:
    """Mean and standard deviation per category."""
    whole = breakdown.whole
    duration = whole["duration_ps"].astype(np.float64)
    mean = float(duration.mean()) if len(duration) else 0.0
    rows = []
    for category in Category:
        values = breakdown.category(category, whole)
        value = float(values.mean()) if len(values) else 0.0
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        rows.append((category.label, category.value, value, spread, value / mean if mean else 0.0))
    table = Table.from_rows("average_step", "Average step", AVERAGE, rows)
    deviation = float(duration.std(ddof=1)) if len(duration) > 1 else 0.0
    return Average(len(duration), mean, median(duration) if len(duration) else 0.0, deviation, table)


@dataclass(frozen=True)
class Pace:
    """How the steps of `average` follow each other: training steps per second of one host, the mean time from the end of a step to the start of
    the next one (ps), and the share of the time from the first step to the last that no step covers.
    """

    per_second: float
    between: float
    outside: float


def pace(run: Run, mean: Average) -> Pace:
    """Of the hosts that `mean` is of; steps of a host do not overlap."""
    gaps, count, spans, per_row = 0.0, 0, 0, 1
    for steps in (run.by_host[host].steps for host in main_program(run)):
        span = int(steps.end.max() - steps.start.min())
        gaps, count, spans = gaps + max(0, span - int(steps.duration.sum())), count + len(steps) - 1, spans + max(span, 0)
        per_row = max(per_row, steps.per_row)
    between = gaps / count if count else 0.0
    cycle = mean.mean + between
    return Pace(per_row * 1e12 / cycle if cycle > 0 else 0.0, between, gaps / spans if spans else 0.0)


def precision(breakdown: StepBreakdown) -> tuple[float, float] | None:
    """Shares of device compute time in 16 and in 32 bits; None without device compute."""
    half = float(breakdown.category(Category.DEVICE_COMPUTE_16).sum())
    full = float(breakdown.category(Category.DEVICE_COMPUTE_32).sum())
    return (half / (half + full), full / (half + full)) if half + full else None


def hosts(run: Run, breakdown: StepBreakdown) -> Table:
    """Run environment, one row per host."""
    whole = breakdown.whole
    return Table.from_rows("hosts", "Run environment", HOSTS, [_host(run, t, whole) for t in run.hosts])


def _host(run: Run, timeline: Timeline, whole: Table) -> tuple[object, ...]:
    mine = whole.of("host", timeline.host)["duration_ps"]
    cores = run.core_count(timeline)
    planes = timeline.device_planes
    return (
        timeline.host,
        len(timeline.steps),
        timeline.steps.source.value,
        timeline.steps.confidence.value,
        float(mine.mean()) if len(mine) else float("nan"),
        len(timeline.trace),
        timeline.span[1] - timeline.span[0],
        device_names(timeline) or "none (CPU only)",
        len(planes),
        str(cores) if cores else "",
        ", ".join(f"{name} {version}" for name, version in versions(run, timeline).items()),
    )


def top_ops(ops: Table, limit: int = 10) -> Iterator[Table]:
    """The ops with most self time: on the device where there is one, and on the host."""
    for side in ("Device", "Host"):
        mine = ops.take((ops["side"] == side) & ~ops["idle"].astype(bool)).sorted_by("self_ps")
        total = float(mine["self_ps"].sum())
        if total == 0:
            continue
        head = mine.take(slice(0, limit))
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
        yield Table.build(f"top_{side.lower()}_ops", f"Top {limit} operations on the {side.lower()}", TOP_OPS, data)

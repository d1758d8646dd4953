# SPDX-License-Identifier: Apache-2.0
"""Advice from comparing workers: one of them is slow, or they wait for each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from outpace.metrics.cluster.workers import Worker
from outpace.model import (
    Category,
    Evidence,
    Finding,
    Interval,
    Saving,
    Severity,
    Table,
    Threshold,
    Unit,
    bootstrap_mean,
    humanize,
    leave_one_out_medians,
    median,
)
from outpace.model.text import format_largest_part, is_majority
from outpace.model.units import format_count
from outpace.tools.pod.compute import OWN_COLUMNS

_OURS = "our choice: below it, workers differ by chance"
SLOWER_SHARE = Threshold("slower than the other workers", 0.10, Unit.FRACTION, _OURS)
# Minimum excess of a slow worker, as a share of the step time: a device that computes little may
# differ much from the others without harm.
_MATERIAL = 0.02
_VERY_SLOW = 0.30  # excess, as a share of the others' median, from which the severity is high
_LEAST_STEPS = 3  # minimum number of steps of a worker for it to be judged
_SEVERAL, _FEW = 3, 0.1  # minimum size of a slow group: number of workers, and share of all workers
_NAMED = 3  # maximum number of workers in a sentence
_FIXES = {
    Category.INPUT.label: "Check the input pipeline of the slow worker: give it the same files, cores and storage as the others, and "
    "shard the data evenly.",
    Category.HOST_COMPUTE.label: "Check what else runs on the slow worker, and whether that has the same cores and clock as the others.",
    Category.COMPILATION.label: "Keep shapes and Python arguments constant on the slow worker, which still traces or compiles. Capture after a "
    "warm-up.",
    Category.DEVICE_COLLECTIVES.label: "Check the network of the slow worker: links, placement, and the order in which gradients are reduced.",
}
_FIX = "Compare the slow worker with the others: hardware, clock and share of the work."


def is_slow_group(slow_count: int, worker_count: int) -> bool:
    """Whether the slow workers are so many that they are another kind of workers (another
    generation of machines, another NUMA node), and no stragglers.
    """
    return slow_count >= _SEVERAL and slow_count > _FEW * worker_count


def is_slow_worker(row: dict[str, Any]) -> bool:
    """Whether a row of the summary shows a worker that is slower than the others by a part of the
    step that matters.
    """
    return bool(row["excess_fraction"] >= SLOWER_SHARE.value and row["excess_ps"] >= _MATERIAL * row["duration_ps"])


def iter_findings(workers: tuple[Worker, ...], summary: Table) -> Iterator[Finding]:
    """Yield a finding for every worker that is slower than the others with certainty. Where these
    are many, yield one for all of them: then there are two kinds of workers, and no stragglers.
    """
    by_name = {w.name: (w, at) for at, w in enumerate(workers)}  # a damaged file may repeat a name
    noise = np.array([_noise(worker) for worker in workers])
    widths = noise - leave_one_out_medians(noise)[:, ::-1]
    rows = list(summary.records())
    slow = [row["worker"] for row in sorted(rows, key=lambda row: -row["excess_ps"]) if is_slow_worker(row)]
    sure = []
    for row in rows:
        worker, at = by_name[row["worker"]]
        excess = _excess(row, *widths[at].tolist())
        if is_slow_worker(row) and row["steps"] >= _LEAST_STEPS and excess.low > 0:
            sure.append((row, worker, excess))
    if is_slow_group(len(sure), len(rows)):
        yield _kind([row for row, _, _ in sure], [worker for _, worker, _ in sure], len(rows))
        return
    for row, worker, excess in sure:
        yield _slow(row, worker, excess, slow[: slow.index(row["worker"])])


def _kind(rows: list[dict[str, Any]], workers: list[Worker], every: int) -> Finding:
    """Return the finding on many workers that are slower than the others: another generation of
    machines, or another share of the work.
    """
    middle = median([row["excess_ps"] for row in rows])
    share = median([row["excess_fraction"] for row in rows])
    most = max(rows, key=lambda row: float(row["excess_ps"]))
    names = ", ".join(row["worker"] for row in rows[:_NAMED]) + ", ..." * (len(rows) > _NAMED)
    causes = Counter(row["cause"] for row in rows if row["cause"]).most_common(1)
    cause, count = causes[0] if causes and is_majority(causes[0][1], len(rows)) else ("", 0)
    waited = all(len(worker.steady_collective_steps) for worker in workers)
    what = "before the first collective of a step" if waited else "per step"
    why = f", {format_largest_part(f'in {cause.lower()}', count, len(rows), total_name='them')}" if cause else ""
    gone = min(1.0, most["excess_ps"] / most["duration_ps"]) if most["duration_ps"] else 0.0
    return Finding(
        id="straggler",
        severity=Severity.HIGH if share >= _VERY_SLOW else Severity.MODERATE,
        sentence=f"{len(rows)} of {every} workers ({names}) are slower than the others: their own work takes {humanize(middle, Unit.PS)} "
        f"({share:.0%}) more {what}{why}.",
        action="Compare the two kinds of workers: hardware, clock, cores, storage and their shares of the work. "
        + _FIXES.get(cause, "Give slower ones less of the work, or let the others not wait for them."),
        evidence=(
            Evidence("workers that are slower", float(len(rows)), Unit.COUNT, "summary"),
            Evidence("above the median of the others, the median of these", middle, Unit.PS, "summary"),
            Evidence("above the median of the others, the most of these", most["excess_ps"], Unit.PS, "summary"),
        ),
        threshold=SLOWER_SHARE,
        counter_evidence=("Workers that train independently, or on different data, may differ on purpose.",),
        saving=Saving(0.0, gone, tuple(c.value for c in Category), "if all took as long as the median of the others")
        if gone
        else None,
        delays=waited,
    )


def _excess(row: dict[str, Any], low: float, high: float) -> Interval:
    """Return what the worker's steps would save if its own time were the median of the others', in
    ps, with the noise of both sides as its width.
    """
    bound = "if it took as long as the median of the others (95% CIs over the steps of all)"
    return Interval(row["excess_ps"] + low, row["excess_ps"] + high, Unit.PS, bound)


def _noise(worker: Worker) -> tuple[float, float]:
    """Return the 95% CI of the mean time that workers are compared by, relative to that
    mean, ps.
    """
    durations = np.sum([worker.category_ps[name] for name in OWN_COLUMNS], axis=0) if worker.is_device else worker.duration
    samples = worker.steady_lead_ps if len(worker.steady_collective_steps) else durations[worker.steady_rows].astype(np.float64)
    interval, mean = bootstrap_mean(samples, Unit.PS, ""), float(samples.mean())
    return interval.low - mean, interval.high - mean


def _slow(row: dict[str, Any], worker: Worker, excess: Interval, slower: Sequence[str]) -> Finding:
    """Return the finding on one slow worker. `slower` names the workers that are slower still."""
    why = (
        f"; its {row['cause']} alone takes {humanize(row['cause_ps'], Unit.PS)} more"
        if row["cause"]
        else ", spread over several categories"
    )
    what, column = (
        ("before the first collective of a step", "before_ps")
        if len(worker.steady_collective_steps)
        else ("per step", "own_ps")
    )
    evidence = [
        Evidence(f"its own time {what}", row[column], Unit.PS, "summary"),
        Evidence("above the median of the others", row["excess_ps"], Unit.PS, "summary"),
    ]
    if row["cause"]:
        evidence.append(Evidence(f"more {row['cause']} than the others", row["cause_ps"], Unit.PS, "summary"))
    evidence.append(Evidence("what a step of all workers loses if it is repaired", row["repair_ps"], Unit.PS, "summary"))
    return Finding(
        id="straggler",
        severity=Severity.HIGH if row["excess_fraction"] >= _VERY_SLOW else Severity.MODERATE,
        sentence=f"Worker {row['worker']} is a straggler: its own work takes {humanize(row['excess_ps'], Unit.PS)} "
        f"({row['excess_fraction']:.0%}) more {what} than the others'{why}.",
        action=_FIXES.get(row["cause"], _FIX),
        evidence=tuple(evidence),
        threshold=SLOWER_SHARE,
        counter_evidence=(
            *_first(slower),
            "Workers that train independently, or on different data, may differ on purpose.",
        ),
        saving=_saving(row, excess),
        host=worker.host,
        delays=bool(len(worker.steady_collective_steps)) and not slower,
    )


def _first(slower: Sequence[str]) -> tuple[str, ...]:
    """Return a note on the slower workers, with which repairing this one alone saves nothing; ()
    without slower workers.
    """
    if not slower:
        return ()
    names = slower[0] if len(slower) == 1 else f"{slower[0]} and {format_count(len(slower) - 1, 'other')}"
    return (f"A step goes on when the last worker has come: what this one gives back, it gives with {names} repaired.",)


def _saving(row: dict[str, Any], excess: Interval) -> Saving | None:
    """Return the upper bound of what repairing a worker saves, since the others may wait for
    something else; None where the interval of the excess is wider than its middle.
    """
    share = min(row["repair_ps"] / row["duration_ps"], 1.0)
    if excess.width > excess.middle or share <= 0:
        return None
    return Saving(0.0, share, tuple(c.value for c in Category), "if it took as long as the median of the others")

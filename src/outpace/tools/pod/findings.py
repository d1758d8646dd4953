"""Advice from comparing workers: one of them is slow, or they wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from outpace.model import Category, Evidence, Finding, Interval, Severity, Table, Threshold, Unit, bootstrap_mean, humanize
from outpace.tools.pod.compute import OWN, Worker

_OURS = "our choice: below it, workers differ by chance"
SLOW = Threshold("slower than the other workers", 0.10, Unit.FRACTION, _OURS)
_MATERIAL = 0.02  # of the step time: a device that computes little may differ much from the others without harm
_VERY_SLOW = 0.30
_LEAST_STEPS = 3
_FIXES = {
    Category.INPUT.label: "Look at its input pipeline: give it the same files, cores and storage as the others, and shard the data evenly.",
    Category.HOST_COMPUTE.label: "Look at what else runs on that host, and whether it has the same cores and clock as the others.",
    Category.COMPILATION.label: "It still traces or compiles: keep shapes and Python arguments constant, and capture after a warm-up.",
    Category.DEVICE_COLLECTIVES.label: "Look at its network: links, placement, and the order in which gradients are reduced.",
}
_FIX = "Compare its hardware, its clock and its share of the work with the others'."


def is_slow(row: dict[str, Any]) -> bool:
    """Whether a row of the summary is of a worker that is slower than the others, by a part of the step that matters."""
    return bool(row["excess_fraction"] >= SLOW.value and row["excess_ps"] >= _MATERIAL * row["duration_ps"])


def find(found: tuple[Worker, ...], summary: Table) -> Iterator[Finding]:
    """A finding for every worker that is slower than the others, and surely so."""
    by_name = {w.name: w for w in found}
    for row in summary.records():
        worker = by_name[row["worker"]]
        excess = _excess(row, worker)
        if is_slow(row) and row["steps"] >= _LEAST_STEPS and excess.low > 0:
            yield _slow(row, worker, excess)


def _excess(row: dict[str, Any], worker: Worker) -> Interval:
    """What the worker's steps would save if its own time were the median of the others'."""
    own = worker.duration if worker.plane is None else np.sum([worker.times[name] for name in OWN], axis=0)
    samples = own[worker.timeline.steps.whole].astype(np.float64)
    mean = bootstrap_mean(samples, Unit.PS, "")
    shift = row["excess_ps"] - float(samples.mean())
    return Interval(
        mean.low + shift,
        mean.high + shift,
        Unit.PS,
        "if it took as long as the median of the others (95 % interval over its steps)",
    )


def _slow(row: dict[str, Any], worker: Worker, excess: Interval) -> Finding:
    why = (
        f", most of it {row['cause']} ({humanize(row['cause_ps'], Unit.PS)})"
        if row["cause"]
        else ", spread over several categories"
    )
    saving = excess if excess.width <= excess.middle else None
    evidence = [
        Evidence("its own time per step", row["own_ps"], Unit.PS, "summary"),
        Evidence("above the median of the others", row["excess_ps"], Unit.PS, "summary"),
    ]
    if row["cause"]:
        evidence.append(Evidence(f"more {row['cause']} than the others", row["cause_ps"], Unit.PS, "summary"))
    return Finding(
        id="straggler",
        severity=Severity.HIGH if row["excess_fraction"] >= _VERY_SLOW else Severity.MODERATE,
        sentence=f"Worker {row['worker']} needs {humanize(row['excess_ps'], Unit.PS)} ({row['excess_fraction']:.0%}) more per step of its own "
        f"than the others{why}.",
        action=_FIXES.get(row["cause"], _FIX),
        evidence=tuple(evidence),
        threshold=SLOW,
        counter_evidence=("Workers that train independently, or on different data, may differ on purpose.",),
        saving=saving,
        saving_fraction=saving and saving.scaled(1 / row["duration_ps"], Unit.FRACTION),
        host=worker.timeline.host,
    )

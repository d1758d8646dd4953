"""Workers that are slower than the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from outpace.metrics.cluster.workers import Worker
from outpace.metrics.facts.step_breakdown import CATEGORY_COLUMNS
from outpace.model import Category, Severity
from outpace.tools.pod import findings as rules
from outpace.tools.pod.schema import SUMMARY
from tests.advice_cases.build import STEP, STEPS, table
from tests.advice_cases.case import Case, Find, about, fires, silent

_NAMES = ("a", "b", "c")


def _workers(fraction: float, excess: float | None = None, *, steps: int = 10, cause: str = "") -> Find:
    """Three workers with steps of 10 ms that do not vary; the last takes `fraction` more of its
    own, which is `excess` of the step.
    """
    part = fraction / (1 + fraction) if excess is None else excess
    none, length = np.zeros(STEPS, np.int64), np.full(STEPS, STEP, np.int64)
    times, at = dict.fromkeys(CATEGORY_COLUMNS, none), np.arange(STEPS)
    workers = tuple(Worker(name, name, False, at, at * STEP, length, at, times, none, {}, None) for name in _NAMES)
    usual: dict[str, Any] = {"program": 1, "steps": steps, "duration_ps": STEP, "own_ps": STEP}
    gained = part * STEP
    slow = {
        "excess_ps": gained,
        "repair_ps": gained,
        "excess_fraction": fraction,
        "cause": cause,
        "cause_ps": gained if cause else 0.0,
    }
    rows = [{**usual, "worker": name, **(slow if name == "c" else {})} for name in _NAMES]
    summary = table("summary", SUMMARY, *rows)
    return lambda: rules.iter_findings(workers, summary)


def _kinds(slow: int, every: int, fraction: float = 0.2) -> Find:
    """Workers that do not vary, of which so many take `fraction` more."""
    part = fraction / (1 + fraction)
    none, length = np.zeros(STEPS, np.int64), np.full(STEPS, STEP, np.int64)
    times, at = dict.fromkeys(CATEGORY_COLUMNS, none), np.arange(STEPS)
    names = [f"node{n:03}" for n in range(every)]
    workers = tuple(Worker(name, name, False, at, at * STEP, length, at, times, none, {}, None) for name in names)
    usual: dict[str, Any] = {"program": 1, "steps": 10, "duration_ps": STEP, "own_ps": STEP}
    more = {"excess_ps": part * STEP, "repair_ps": 0.0, "excess_fraction": fraction, "cause": "", "cause_ps": 0.0}
    rows = [{**usual, "worker": name, **(more if at < slow else {})} for at, name in enumerate(names)]
    summary = table("summary", SUMMARY, *rows)
    return lambda: rules.iter_findings(workers, summary)


_ALL = {"takes_from": tuple(c.value for c in Category)}
CASES: list[Case] = [
    fires("straggler", "15% more", _workers(0.15), Severity.MODERATE, saves=about(0.13), says=("Worker c", "15%"), **_ALL),
    fires("straggler", "20% more", _workers(0.2), Severity.MODERATE, saves=about(0.2 / 1.2), **_ALL),
    fires("straggler", "40% more", _workers(0.4), Severity.HIGH, saves=about(0.4 / 1.4), **_ALL),
    fires(
        "straggler",
        "it waits for input",
        _workers(0.4, cause=Category.INPUT.label),
        Severity.HIGH,
        saves=about(0.4 / 1.4),
        says=("shard",),
    ),
    silent("straggler", "7% more", _workers(0.07)),
    fires("straggler", "3% of the step", _workers(0.5, 0.03), Severity.HIGH, saves=about(0.03), **_ALL),
    silent("straggler", "1.5% of the step", _workers(0.5, 0.015)),
    fires("straggler", "four steps", _workers(0.4, steps=4), Severity.HIGH, saves=about(0.4 / 1.4), **_ALL),
    fires(
        "straggler",
        "half of 200 workers, which are of two kinds",
        _kinds(100, 200),
        Severity.MODERATE,
        saves=about(0.2 / 1.2),
        says=("100 of 200 workers (node000, node001, node002, ...)", "two kinds"),
        never=("is a straggler",),
        **_ALL,
    ),
    fires(
        "straggler",
        "three of 20 workers",
        _kinds(3, 20),
        Severity.MODERATE,
        saves=about(0.2 / 1.2),
        says=("3 of 20 workers",),
        **_ALL,
    ),
    *(
        fires(
            "straggler",
            f"{slow} of {every} workers",
            _kinds(slow, every),
            Severity.MODERATE,
            says=("Worker node000 is a straggler",),
        )
        for slow, every in ((2, 15), (4, 60))
    ),
    silent("straggler", "two steps", _workers(0.4, steps=2)),
]

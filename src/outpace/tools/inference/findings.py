# SPDX-License-Identifier: Apache-2.0
"""Findings about latency: a long tail, and a slow first call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.model import Category, Evidence, Finding, Severity, Table, Threshold, Unit, humanize, median
from outpace.model.arrays import Indices

_OURS = "our choice"
LONG_TAIL = Threshold("slowest calls against the median", 3.0, Unit.RATIO, _OURS)
_LEAST = 10  # minimum number of calls of a function that is judged
# Minimum share of the slow calls in the number of calls, or in their time, for a finding.
_SHARE, _SHARE_OF_TIME = 0.01, 0.05
_EXPLAINS = 0.5  # minimum share of the difference that a category explains to be called its cause
_FIRST = Threshold("first call against the median", 5.0, Unit.RATIO, _OURS)
_FIXES = {
    Category.COMPILATION: "Warm the model up with every input shape, or pad inputs to few shapes: the slow calls built a "
    "graph or compiled.",
    Category.INPUT: "Prepare the next batch while this one runs: the slow calls waited for input.",
    Category.HOST_COMPUTE: "Look at the longest op of the slow calls, at larger inputs, and at what else used the cores: they computed "
    "longer on the host.",
    Category.OUTPUT: "Return less, or copy in larger pieces: the slow calls waited for results to be copied back.",
}
_FIX = "Look at what else the machine did, in the trace viewer, which shows all threads."


def iter_findings(requests: Table) -> Iterator[Finding]:
    """Yield findings per host and function: the cost of the first call, and what the slow calls
    spend more time on than the others.
    """
    for host, name in dict.fromkeys(zip(requests["host"].tolist(), requests["function"].tolist(), strict=True)):
        calls = requests.take((requests["host"] == host) & (requests["function"] == name))
        times = calls["latency_ps"].astype(np.float64)
        if len(times) < _LEAST or not (middle := median(times)):
            continue
        if times[0] >= _FIRST.value * middle:
            yield _first(host, name, float(times[0]), middle)
        slow = np.flatnonzero(times >= LONG_TAIL.value * middle)
        slow = slow[slow > 0]  # the first call has its own finding
        if len(slow) >= _SHARE * len(times) or times[slow].sum() >= _SHARE_OF_TIME * times.sum():
            yield from _tail(host, calls, slow, middle)


def _first(host: str, name: str, first: float, middle: float) -> Finding:
    """Return the finding about a slow first call; `first` and `middle` are its latency and the
    median, ps.
    """
    return Finding(
        id="slow_first_call",
        severity=Severity.POTENTIAL,
        sentence=f"The first call of '{name}' took {humanize(first, Unit.PS)}, {first / middle:.0f} times the median.",
        action="Call the model once before it serves requests, with every input shape.",
        evidence=(
            Evidence("latency of the first call", first, Unit.PS, "requests"),
            Evidence("median latency", middle, Unit.PS, "latency"),
        ),
        threshold=_FIRST,
        host=host,
        counter_evidence=("The first call in the capture is the program's first only if the capture began before it.",),
    )


def _tail(host: str, calls: Table, slow: Indices, middle: float) -> Iterator[Finding]:
    """Yield a finding about the slow calls of a function, with the category that explains most of
    the difference.

    slow: rows of the slow calls in `calls`
    middle: median latency, ps
    """
    if len(slow) == 0:
        return
    name, usual = calls["function"][0], np.delete(np.arange(len(calls)), [0, *slow])
    gaps = {c: _mean(calls, c, slow) - _mean(calls, c, usual) for c in Category}
    cause = max(gaps, key=lambda c: gaps[c])
    mean = float(calls["latency_ps"][slow].mean())
    is_explained = gaps[cause] >= _EXPLAINS * (mean - middle)
    why = f", most of the difference in {cause.label.lower()} ({humanize(gaps[cause], Unit.PS)} more)" if is_explained else ""
    evidence = [
        Evidence("mean latency of the slow calls", mean, Unit.PS, "requests"),
        Evidence("median latency", middle, Unit.PS, "latency"),
    ]
    if is_explained:
        evidence.append(Evidence(f"{cause.label} beyond the other calls", gaps[cause], Unit.PS, "requests"))
    yield Finding(
        id="latency_tail",
        severity=Severity.MODERATE,
        sentence=f"{len(slow)} of {len(calls)} calls of '{name}' took at least {LONG_TAIL.value:.0f} times the median "
        f"({humanize(middle, Unit.PS)}){why}.",
        action=_FIXES.get(cause, _FIX) if is_explained else _FIX,
        evidence=tuple(evidence),
        threshold=LONG_TAIL,
        host=host,
    )


def _mean(calls: Table, category: Category, rows: Indices) -> float:
    """Return the mean time of a category in some calls, ps; 0 without calls."""
    return float(calls[category.column][rows].mean()) if len(rows) else 0.0

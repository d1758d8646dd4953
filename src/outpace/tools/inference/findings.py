"""Advice about latency: a long tail, and first calls that compile."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.model import Category, Evidence, Finding, Severity, Table, Threshold, Unit, humanize, median
from outpace.timeline.steps import Array

_OURS = "our choice"
TAIL = Threshold("slowest calls against the median", 3.0, Unit.RATIO, _OURS)
_LEAST = 10  # calls, to speak of a tail
_FIRST = Threshold("first call against the median", 5.0, Unit.RATIO, _OURS)
_FIXES = {
    Category.COMPILATION: "They built a graph or compiled: warm the model up with every input shape that it will see, or give it an "
    "input_signature.",
    Category.INPUT: "They waited for input: prepare the next batch while this one runs.",
    Category.HOST_COMPUTE: "They computed longer on the host: look at their longest op, at larger inputs, and at what else used the cores.",
    Category.OUTPUT: "They waited for results to be copied back: return less, or copy in larger pieces.",
}
_FIX = "Look at what else the machine did at that time; the trace viewer shows all threads."


def find(table: Table) -> Iterator[Finding]:
    """Findings per function: what the first call cost, and what the slow calls have that the others have not."""
    for name in dict.fromkeys(table["function"].tolist()):
        mine = table.take(table["function"] == name)
        times = mine["latency_ps"].astype(np.float64)
        if len(times) < _LEAST:
            continue
        middle = median(times)
        if times[0] >= _FIRST.value * middle:
            yield _first(name, float(times[0]), middle)
        slow = np.flatnonzero(times >= TAIL.value * middle)
        slow = slow[slow > 0]  # the first call has a finding of its own
        if len(slow):
            yield _tail(name, mine, slow, middle)


def _first(name: str, first: float, middle: float) -> Finding:
    return Finding(
        id="slow_first_call",
        severity=Severity.POTENTIAL,
        sentence=f"The first call of '{name}' took {humanize(first, Unit.PS)}, {first / middle:.0f} times the median.",
        action="Call the model once with every input shape before it serves requests.",
        evidence=(
            Evidence("latency of the first call", first, Unit.PS, "requests"),
            Evidence("median latency", middle, Unit.PS, "latency"),
        ),
        threshold=_FIRST,
        counter_evidence=("The first call in the capture is the program's first only if the capture began before it.",),
    )


def _tail(name: str, mine: Table, slow: Array, middle: float) -> Finding:
    usual = np.setdiff1d(np.arange(1, len(mine)), slow)
    gaps = {}
    for category in Category:
        values = mine[f"{category.value}_ps"].astype(np.float64)
        gaps[category] = float(np.nanmean(values[slow]) - np.nanmean(values[usual])) if len(usual) else 0.0
    cause = max(gaps, key=lambda c: gaps[c])
    mean = float(mine["latency_ps"][slow].mean())
    return Finding(
        id="latency_tail",
        severity=Severity.MODERATE,
        sentence=f"{len(slow)} of {len(mine)} calls of '{name}' took at least {TAIL.value:.0f} times the median "
        f"({humanize(middle, Unit.PS)}), most of the difference in {cause.label.lower()} ({humanize(gaps[cause], Unit.PS)} more).",
        action=_FIXES.get(cause, _FIX),
        evidence=(
            Evidence("mean latency of the slow calls", mean, Unit.PS, "requests"),
            Evidence("median latency", middle, Unit.PS, "latency"),
            Evidence(f"{cause.label} beyond the other calls", gaps[cause], Unit.PS, "requests"),
        ),
        threshold=TAIL,
    )

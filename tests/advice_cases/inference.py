"""Latencies of calls: the first one, and the tail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outpace.model import Category, Severity
from outpace.tools.inference import findings as rules
from outpace.tools.inference.schema import REQUESTS
from tests.advice_cases.build import MS, table
from tests.advice_cases.case import Case, Find, fires, silent


def _calls(times: Sequence[float], parts: Mapping[Category, float] | None = None) -> Find:
    """Calls of these lengths, ms; beyond 1 ms, `parts` of it are in these categories, and all
    before in computation on the host.
    """
    rows = []
    for number, time in enumerate(times):
        beyond = {f"{c.value}_ps": round(part * max(time - 1, 0) * MS) for c, part in (parts or {}).items()}
        rows.append({"request": number, "function": "serve", "latency_ps": round(time * MS), **beyond})
    requests = table("requests", REQUESTS, *rows)
    return lambda: rules.iter_findings(requests)


def _slow(count: int, time: float, of: int, parts: Mapping[Category, float] | None = None) -> Find:
    return _calls([1.0] * (of - count) + [time] * count, parts)


_MIXED = {Category.COMPILATION: 0.35, Category.INPUT: 0.33, Category.OUTPUT: 0.32}
CASES: list[Case] = [
    fires(
        "slow_first_call", "seven times the median", _calls([7.0, *[1.0] * 11]), Severity.POTENTIAL, says=("every input shape",)
    ),
    silent("slow_first_call", "3.5 times the median", _calls([3.5, *[1.0] * 11])),
    silent("slow_first_call", "seven calls", _calls([7.0, *[1.0] * 6])),
    fires("latency_tail", "three of twenty", _slow(3, 4.5, 20), Severity.MODERATE, says=("3 of 20 calls", "trace viewer")),
    silent("latency_tail", "twice the median", _slow(3, 2.0, 20)),
    silent("latency_tail", "one short one in 150", _slow(1, 4.0, 150)),
    fires("latency_tail", "one in 75, little time", _slow(1, 3.2, 75), Severity.MODERATE),
    fires("latency_tail", "one in 150, 6% of the time", _slow(1, 10.0, 150), Severity.MODERATE),
    fires(
        "latency_tail",
        "most of it compiling",
        _slow(3, 4.5, 20, {Category.COMPILATION: 0.7, Category.INPUT: 0.3}),
        Severity.MODERATE,
        says=("most of the difference in compilation", "Warm the model up"),
    ),
    fires("latency_tail", "of several causes", _slow(3, 4.5, 20, _MIXED), Severity.MODERATE, never=("most of the difference",)),
]

"""Findings and pages of nothing but what ranking looks at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from outpace.advice import rank_findings
from outpace.metrics.savings.budget import ALL_HOSTS, Budget
from outpace.model import OUTSIDE_STEPS, Category, Evidence, Finding, Page, Saving, Severity, Unit

PS = 10_000_000_000  # a step


def finding(
    rule: str, saves: float | None = None, takes: tuple[str, ...] = ("input",), low: float = 0.0, **fields: Any
) -> Finding:
    """A finding of `rule` that saves at most `saves` of the step."""
    given = {"severity": Severity.MODERATE, "sentence": f"{rule} is the case.", "action": "Change it.", **fields}
    proof = (Evidence("a number", 1.0, Unit.COUNT, given.pop("table", "steps")),)
    return Finding(rule, evidence=proof, saving=None if saves is None else Saving(low, saves, takes, "if it was gone"), **given)


def page(*findings: Finding) -> Page:
    return Page("page", "Page", "What?", "So.", findings=findings)


def budget(*hosts: str, **shares: float) -> Budget:
    """A budget of hosts whose steps are equally long."""
    known = {category.value: shares.get(category.value, 0.0) for category in Category}
    return Budget(
        PS,
        "recorded step",
        10,
        {**known, OUTSIDE_STEPS: shares.get(OUTSIDE_STEPS, 0.0)},
        {host: 1 / len(hosts) for host in hosts},
    )


def one_host(**shares: float) -> dict[str, Budget]:
    """The budgets of a run of one host."""
    return {"vm": budget("vm", **shares), ALL_HOSTS: budget("vm", **shares)}


def rank_pages(
    pages: Iterable[Page], budgets: Mapping[str, Budget] | None = None
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings of a ranking, and those that were struck."""
    ranking = rank_findings(pages, budgets)
    return ranking.findings, ranking.struck

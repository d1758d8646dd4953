"""The headline agrees with what to change first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outpace.advice.headline import build_headline
from outpace.metrics.savings.budget import budgets, build_saving
from outpace.model import Category, Evidence, Finding, Page, Severity, Unavailable, Unit
from tests.advice_cases.build import budget, budgeted

COMPUTES = "CPU-bound: ops run in 60% of the step."
HOST, REST, DEVICE, INPUT = Category.HOST_COMPUTE, Category.ALL_OTHERS, Category.DEVICE_COMPUTE_32, Category.INPUT


def finding(share: float, *takes: Category, severity: Severity = Severity.HIGH) -> Finding:
    said = "Logging takes half of it. It writes."
    proof = Evidence("share", share, Unit.FRACTION, "t")
    return Finding("x", severity, said, "Log less.", (proof,), saving=build_saving(share, *takes, assumes="if none"))


def page(said: str = COMPUTES) -> Page:
    return Page(id="p", title="P", question="?", headline=said, verdict="CPU-bound 60%")


@pytest.mark.parametrize(
    ("first", "agrees"),
    [
        (finding(0.5, HOST, REST), False),
        (finding(0.5, REST), False),
        (finding(0.5, HOST, DEVICE), True),
        (finding(0.5, INPUT), True),
        (finding(0.1, REST), True),  # input takes more
        (finding(0.5, REST, severity=Severity.INFO), True),
        (finding(0.0, REST), True),
    ],
)
def test_python_first_is_no_computation(first: Finding, agrees: bool) -> None:
    run = budgeted({INPUT: 0.2, REST: 0.2})
    assert build_headline(run, (page(),), (first,)).sentence == (
        COMPUTES if agrees else "Host-bound, 10.0 ms per step: Logging takes half of it."
    )


def test_a_host_of_another_program_is_named_first() -> None:
    other = {INPUT: 0.7, REST: 0.1}
    run = budgeted({HOST: 0.9, REST: 0.1})
    run.cache.set(budgets, {**budgets(run), "other": budget(other)["vm"]})
    first = replace(finding(0.7, INPUT), host="other")
    assert (
        build_headline(run, (page(),), (first,)).sentence
        == f"other has most to gain: 70% of its 10.0 ms step is input. {COMPUTES}"
    )
    assert build_headline(run, (page(),), (replace(first, host="vm"),)) == (COMPUTES, "CPU-bound 60%")


def test_where_something_else_bounds_the_program_that_is_said() -> None:
    run = budgeted({DEVICE: 0.7})
    assert build_headline(run, (page("Device-bound."),), (finding(0.2, REST),)).sentence.endswith("Device-bound.")
    assert build_headline(run, (page(),), ()) == (COMPUTES, "CPU-bound 60%")


def test_without_a_headline_the_reason_is_said() -> None:
    run = budgeted({})
    none = Page(id="p", title="P", question="?", unavailable=Unavailable("no step was found.", "Capture longer."))
    assert build_headline(run, (none,), ()).sentence.startswith("No step was found")
    assert build_headline(run, (), ()).sentence == "No tool could say anything of this profile."

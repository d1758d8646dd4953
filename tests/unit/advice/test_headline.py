"""The headline agrees with what to change first."""

from __future__ import annotations

import pytest

from outpace.advice.headline import headline
from outpace.metrics.program.budget import at_most
from outpace.model import Category, Evidence, Finding, Page, Severity, Unavailable, Unit
from tests.advice_cases.build import budgeted

COMPUTES = "Bound by computation on the host: ops run in 60% of the step."
HOST, REST, DEVICE, INPUT = Category.HOST_COMPUTE, Category.ALL_OTHERS, Category.DEVICE_COMPUTE_32, Category.INPUT


def finding(share: float, *takes: Category, severity: Severity = Severity.HIGH) -> Finding:
    said = "Logging takes half of it. It writes."
    proof = Evidence("share", share, Unit.FRACTION, "t")
    return Finding("x", severity, said, "Log less.", (proof,), saving=at_most(share, *takes, assumes="if none"))


def page(said: str = COMPUTES) -> Page:
    return Page(id="p", title="P", question="?", headline=said)


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
    assert headline(run, (page(),), (first,)) == (
        COMPUTES if agrees else "Host-bound, 10.0 ms per step: Logging takes half of it."
    )


def test_where_something_else_bounds_the_program_that_is_said() -> None:
    run = budgeted({DEVICE: 0.7})
    assert headline(run, (page("Bound by computation on the device."),), (finding(0.2, REST),)).endswith("device.")
    assert headline(run, (page(),), ()) == COMPUTES


def test_without_a_headline_the_reason_is_said() -> None:
    run = budgeted({})
    none = Page(id="p", title="P", question="?", unavailable=Unavailable("no step was found.", "Capture longer."))
    assert headline(run, (none,), ()).startswith("No step was found")
    assert headline(run, (), ()) == "No tool could say anything of this profile."

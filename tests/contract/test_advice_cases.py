"""Every rule of the advice against its cases: it speaks where it must, in the right words and with
the right number, and nowhere else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from outpace.model import Category, Finding
from tests.advice_cases import CASES
from tests.advice_cases.case import NOT_JAX, NOT_TENSORFLOW, Case

TOOLS = Path(__file__).parents[2] / "src" / "outpace" / "tools"
EXPANDED = {
    "high_{rule.category.value}": ("high_output", "high_kernel_launch", "high_device_collectives"),
    "capture.{kind}": ("capture.empty", "capture.damaged", "capture.no_steps", "capture.no_whole_step"),
}
"""Ids that a rule puts together, by how its source spells them."""

EVERY = [case for cases in CASES.values() for case in cases]
ALL = [pytest.param(case, id=f"{case.rule}: {case.name}") for case in EVERY]
PAIRS = [(case.rule, case.name) for case in EVERY]
FOR_ALL = (
    *("slow_first_call", "latency_tail", "late_launches"),
    *("straggler", "background_threads", "profiling_overhead", "capture.empty", "capture.damaged"),
)
"""Rules that say the same to programs of all frameworks."""
OWN_WORDS = (*NOT_JAX, *NOT_TENSORFLOW, "tf.", "tensorflow", "input_signature")


def expected() -> Iterator[object]:
    """All cases; those that are known to be answered wrongly must fail."""
    for case in EVERY:
        marks = [pytest.mark.xfail(strict=True, reason=case.wrong)] if case.wrong else []
        yield pytest.param(case, id=f"{case.rule}: {case.name}", marks=marks)


def ids_of(node: ast.expr) -> Iterator[str]:
    """The ids that an expression may stand for."""
    if isinstance(node, ast.IfExp):
        yield from ids_of(node.body)
        yield from ids_of(node.orelse)
    elif isinstance(node, ast.JoinedStr):
        yield from EXPANDED[ast.unparse(node)[2:-1]]
    else:
        assert isinstance(node, ast.Constant) and isinstance(node.value, str), ast.unparse(node)
        yield node.value


@cache
def rules() -> frozenset[str]:
    """The ids of all findings that the tools' sources make."""
    calls = (
        node
        for path in sorted(TOOLS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == Finding.__name__
    )
    return frozenset(rule for call in calls for key in call.keywords if key.arg == "id" for rule in ids_of(key.value))


def test_rules_are_found() -> None:
    assert {"input_bound", "python_in_model", "odd_ops", "high_output", "capture.empty"} <= rules()


@pytest.mark.parametrize("rule", sorted(rules()))
def test_a_rule_has_cases(rule: str) -> None:
    mine = CASES.get(rule, [])
    assert any(case.severity is not None for case in mine), f"no case in which {rule} speaks"
    assert any(case.severity is None for case in mine), f"no case in which {rule} stays silent"


def test_cases_are_of_rules_and_have_names_of_their_own() -> None:
    assert set(CASES) <= rules()
    assert len(set(PAIRS)) == len(PAIRS), sorted(pair for pair in set(PAIRS) if PAIRS.count(pair) > 1)


@pytest.mark.parametrize("case", list(expected()))
def test_a_rule_says_what_its_case_expects(case: Case) -> None:
    found = case.findings()
    if case.severity is None:
        assert not found, found[0].sentence
        return
    assert found, "it stayed silent"
    first = found[0]
    assert first.severity is case.severity, first.sentence
    assert first.location == case.location
    assert bool(first.struck) is case.struck
    text = f"{first.sentence} {first.action}"
    assert [word for word in case.says if word.lower() not in text.lower()] == [], text
    assert [word for word in case.never if word.lower() in text.lower()] == [], text
    assert (first.saving is None) is (case.saves is None), first.saving
    if case.saves and first.saving:
        assert case.saves[0] <= first.saving.high <= case.saves[1], first.saving
        assert not case.takes_from or first.saving.takes_from == case.takes_from


@pytest.mark.parametrize("case", ALL)
def test_what_a_rule_says_is_complete(case: Case) -> None:
    """Full sentences, proof whose numbers are numbers, and savings from categories that
    there are.
    """
    for finding in case.findings():
        assert finding.sentence.endswith(".") and finding.action.endswith(".")
        assert all(evidence.value == evidence.value for evidence in finding.evidence)
        if finding.saving:
            assert set(finding.saving.takes_from) <= {*(c.value for c in Category), "outside"}


@pytest.mark.parametrize("rule", FOR_ALL)
def test_what_is_said_to_all_programs_is_in_nobodys_own_words(rule: str) -> None:
    texts = [f"{f.sentence} {f.action} {' '.join(f.counter_evidence)}".lower() for case in CASES[rule] for f in case.findings()]
    own = [word for word in OWN_WORDS if any(word.lower() in text for text in texts)]
    assert not own

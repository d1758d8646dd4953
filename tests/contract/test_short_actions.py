"""Each action begins with an imperative of at most eight words, which lists, titles and tables show
alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import outpace
from outpace.metrics.actions.model_work import CPU, GPU, TPU, ActionContext, OpTraits, render_actions
from outpace.metrics.actions.python_lines import PYTHON_ACTIONS
from outpace.metrics.facts.workload import Framework, Workload
from outpace.model.text import short_form
from outpace.timeline.work_kinds import WorkKind
from tests.advice_cases import CASES
from tests.support import PROFILES, opened

MOST = 8
SOURCE = Path(outpace.__file__).parent
# A short form that begins with one of these is a condition or a reason, and no imperative.
NO_IMPERATIVES = frozenset(
    (
        "a",
        "an",
        "and",
        "as",
        "because",
        "each",
        "every",
        "for",
        "if",
        "in",
        "it",
        "its",
        "on",
        "only",
        "or",
        "the",
        "where",
        "with",
    )
)
# In the first words, nothing stands before that such a word could mean: the action is read first.
PRONOUNS = frozenset(("it", "its", "them", "their", "they"))


def assert_short(action: str) -> None:
    short = short_form(action)
    words = short.split()
    assert 1 <= len(words) <= MOST, short
    assert words[0].lower() not in NO_IMPERATIVES, short
    assert not PRONOUNS & set(words[:3]), short
    assert short.count("(") == short.count(")") and words[-1] not in ("and", "or", "with", "the", "of"), short


@pytest.mark.parametrize("rule", CASES)
def test_findings_of_all_cases(rule: str) -> None:
    for case in CASES[rule]:
        for finding in case.findings():
            assert_short(finding.action)


@pytest.mark.parametrize("name", PROFILES)
def test_findings_of_all_profiles(name: str) -> None:
    for finding in opened(name).report().findings:
        assert_short(finding.action)


def test_actions_on_kinds_of_work() -> None:
    flags = (False, True)
    traits = [
        OpTraits(),
        OpTraits(is_memory_bound=True),
        OpTraits(is_near_peak=True),
        OpTraits(is_joinable=True, dropout_rate=0.1),
    ]
    for framework, hardware, xla, half, of in product(Framework, (CPU, GPU, TPU), flags, flags, traits):
        for count, short, op in product((1, 3), flags, ("", "MatMul", "GatherV2", "AssignSubVariableOp", "cudnn")):
            context = ActionContext(
                Workload(framework), hardware, xla, half, traits=of, program_count=count, has_short_ops=short, op=op
            )
            for work in WorkKind:
                assert_short(render_actions(work, context))


def test_actions_on_python() -> None:
    for action, framework in product(PYTHON_ACTIONS, Framework):
        assert_short(action.render("train.py:7", Workload(framework)))


def slow_case_actions() -> Iterator[str]:
    """What the slow cases of compiled ops advise, as far as it is written out."""
    for name in ("slow_cases", "alternatives"):
        for node in ast.walk(ast.parse((SOURCE / f"timeline/hlo/{name}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "SlowCase":
                action = node.args[2]
                if isinstance(action, ast.Constant):
                    yield str(action.value)


def test_actions_on_slow_ops() -> None:
    actions = list(slow_case_actions())
    assert len(actions) > 10
    for action in actions:
        assert_short(action)

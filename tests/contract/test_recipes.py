"""Recipes: each is for an action that some finding recommends, and its code is Python; what most
findings recommend has one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from itertools import product

import pytest

from outpace.metrics.actions.model_work import CPU, GPU, TPU, ActionContext, OpTraits, render_actions
from outpace.metrics.actions.python_lines import PYTHON_ACTIONS
from outpace.metrics.facts.workload import Framework, Workload
from outpace.model import Severity
from outpace.model.text import short_form
from outpace.report.recipes import Recipe, find_recipe, read_recipes
from outpace.timeline.work_kinds import WorkKind
from tests.advice_cases import CASES

# Rules whose action is no change of code: what to capture, to look at, or to run elsewhere.
WITHOUT_CODE = (
    "capture.",
    "straggler",
    "set_aside",
    "latency_tail",
    "profiling_overhead",
    "background_threads",
    "exchange_cost",
)


@cache
def advised() -> dict[str, str]:
    """Rules by short action, of all cases, but for what is only told."""
    cases = ((rule, case) for rule in CASES for case in CASES[rule])
    return {f.short: f.id for _, case in cases for f in case.findings() if f.severity is not Severity.INFO}


def model_actions() -> Iterator[str]:
    for framework, hardware, xla, half in product(Framework, (CPU, GPU, TPU), (False, True), (False, True)):
        context = ActionContext(Workload(framework), hardware, xla, half, traits=OpTraits())
        yield from (render_actions(work, context) for work in WorkKind)


@pytest.mark.parametrize("recipe", read_recipes(), ids=lambda recipe: recipe.title)
def test_a_recipe_is_for_an_action_and_its_code_is_python(recipe: Recipe) -> None:
    shorts = {*advised(), *map(short_form, model_actions())}
    shorts |= {short_form(action.render("train.py:7", Workload(kind))) for action, kind in product(PYTHON_ACTIONS, Framework)}
    assert any(recipe.is_for(short) for short in shorts)
    assert not [action for action in recipe.actions if any(find_recipe(s) is not recipe for s in shorts if s == action)]
    ast.parse(recipe.code)
    assert "#" in recipe.code and max(map(len, recipe.code.splitlines())) <= 120


def test_most_changes_of_code_have_a_recipe() -> None:
    asked = {short for short, rule in advised().items() if not rule.startswith(WITHOUT_CODE)}
    have = {short for short in asked if find_recipe(short) is not None}
    assert len(have) > 0.6 * len(asked), sorted(asked - have)

"""No limit of a rule can be moved without a case that notices: each is halved and doubled, and what
some case says must change.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from outpace.model import Threshold
from tests.advice_cases import TOOLS as CASES_OF
from tests.advice_cases.case import Case

pytestmark = pytest.mark.slow  # each limit is moved, and its cases are judged again

TOOLS = Path(__file__).parents[2] / "src" / "outpace" / "tools"
FILES = (
    "findings",
    "background_threads",
    "step_overheads",
    "evaluation",
    "unsteady_steps",
    "capture_findings",
    "work_summary",
    "parts",
    "frozen_layers",
    "all_pairs",
    "repeated_gradients",
    "idle_rows",
    "above_roof",
    "growth",
    "avoidable_work",
    "cache_saving",
    "context",
    "slow_stage",
    "stage_actions",
)
"""Files of a tool in which its rules stand, and what they compare with."""

VERDICTS = {
    "outpace.metrics.facts.cpu_saturation": ("input_pipeline", "tf_data", "python_time"),
    "outpace.metrics.facts.idle_gaps": ("overview",),
}
"""Modules with verdicts that several tools share, and these tools: a case of any of them may
notice.
"""

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("outpace.metrics.facts.cpu_saturation", "_MOMENTS"): "how many moments are looked at, which limits nothing",
    ("outpace.metrics.facts.cpu_saturation", "_GOLDEN"): "spreads these moments evenly",
    ("memory_profile.growth", "len(used) >= 2"): "which rows the table has; a finding needs five steps anyway",
}
"""Limits by file and name, or numbers by file and comparison, that no case can feel, and why."""


def named(tree: ast.Module) -> Iterator[str]:
    """Names that a module itself gives values."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def limits() -> Iterator[tuple[str, str]]:
    """(module, name) of all limits."""
    for path in sorted(TOOLS.glob("*/*.py")):
        if path.stem not in FILES:
            continue
        yield from limits_of(f"outpace.tools.{path.parent.name}.{path.stem}")
    for module in VERDICTS:
        yield from limits_of(module)


def limits_of(module: str) -> Iterator[tuple[str, str]]:
    """The limits of one module."""
    values = vars(importlib.import_module(module))
    for name in named(ast.parse(Path(values["__file__"]).read_text(encoding="utf-8"))):
        if isinstance(values[name], (Threshold, int, float)) and not isinstance(values[name], bool):
            yield module, name


LIMITS = list(limits())


def moved(value: Any, factor: float) -> Any:
    """A limit times a factor; counts stay whole."""
    if isinstance(value, Threshold):
        return Threshold(value.name, moved(value.value, factor), value.unit, value.source)
    return round(value * factor) if isinstance(value, int) else value * factor


def exchanged(value: Any, old: object, new: object) -> Any:
    """A value with every mention of a limit, also inside of tables of rules, exchanged
    for another.
    """
    if value is old:
        return new
    if isinstance(value, tuple) and value and all(is_dataclass(item) for item in value):
        return tuple(replace(i, **{f.name: new for f in fields(i) if getattr(i, f.name) is old}) for i in value)
    return value


def move(module: ModuleType, name: str, factor: float, patch: pytest.MonkeyPatch) -> None:
    """Multiply a limit in its module, and where the tool's other modules use it."""
    old = vars(module)[name]
    new = moved(old, factor)
    for user in near(module):
        if vars(user).get(name) is old:
            patch.setattr(user, name, new)
    if isinstance(old, Threshold):
        for other, value in list(vars(module).items()):
            if (changed := exchanged(value, old, new)) is not value:
                patch.setattr(module, other, changed)


def near(module: ModuleType) -> list[ModuleType]:
    """All modules of a module's package that are imported."""
    package = module.__name__.rpartition(".")[0]
    return [found for name, found in sys.modules.items() if name.startswith(f"{package}.")]


class Moving(ast.NodeTransformer):
    """Multiplies one of the numbers that stand in comparisons themselves."""

    def __init__(self, place: tuple[int, int], factor: float) -> None:
        self.place, self.factor = place, factor

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant(moved(node.value, self.factor)) if (node.lineno, node.col_offset) == self.place else node


def source(module: str) -> Path:
    return TOOLS.joinpath(*module.split(".")[2:]).with_suffix(".py")


def numbers() -> Iterator[tuple[str, str, tuple[int, int]]]:
    """(module, comparison, place) of the numbers beside 0 and 1 that stand in comparisons without a
    name.
    """
    for path in sorted(TOOLS.glob("*/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.stem in FILES else ():
            for part in ast.walk(node) if isinstance(node, ast.Compare) else ():
                if isinstance(part, ast.Constant) and isinstance(part.value, (int, float)) and part.value not in (0, 1):
                    yield f"outpace.tools.{path.parent.name}.{path.stem}", ast.unparse(node), (part.lineno, part.col_offset)


NUMBERS = list(numbers())


def rewrite(module: ModuleType, place: tuple[int, int], factor: float, patch: pytest.MonkeyPatch) -> None:
    """Exchange a module's functions for those of its source with one number changed, also where the
    tool's other modules use them.
    """
    tree = ast.parse(source(module.__name__).read_text(encoding="utf-8"))
    changed = ast.fix_missing_locations(Moving(place, factor).visit(tree))
    other = dict(vars(module))
    exec(compile(changed, module.__name__, "exec"), other)
    new = {
        id(old): other[name] for name, old in vars(module).items() if isinstance(old, FunctionType) and other[name] is not old
    }
    for user in near(module):
        for name, value in list(vars(user).items()):
            if id(value) in new:
                patch.setattr(user, name, new[id(value)])


@cache
def usual(tool: str) -> list[object]:
    return [case.outcome() for case in CASES_OF[tool]]


def notices(case: Case, before: object) -> bool:
    try:
        return case.outcome() != before
    except ArithmeticError:
        return True


@pytest.mark.parametrize("factor", [0.5, 2.0], ids=["halved", "doubled"])
@pytest.mark.parametrize(("module", "name"), LIMITS, ids=[f"{m.removeprefix('outpace.tools.')}.{n}" for m, n in LIMITS])
def test_a_case_notices(module: str, name: str, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    file = module.removeprefix("outpace.tools.")
    tools = VERDICTS.get(module, (file.partition(".")[0],))
    before = [(case, was) for tool in tools for case, was in zip(CASES_OF[tool], usual(tool), strict=True)]
    move(importlib.import_module(module), name, factor, monkeypatch)
    noticed = [case for case, was in before if notices(case, was)]
    excused = (file, name) in EXCEPTIONS
    assert bool(noticed) is not excused, "a case feels it: no exception is needed" if noticed else "no case feels it"


@pytest.mark.parametrize("factor", [0.5, 2.0], ids=["halved", "doubled"])
@pytest.mark.parametrize(
    ("module", "comparison", "place"), NUMBERS, ids=[f"{m.removeprefix('outpace.tools.')}: {c}" for m, c, _ in NUMBERS]
)
def test_a_case_notices_a_number(
    module: str, comparison: str, place: tuple[int, int], factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = module.removeprefix("outpace.tools.")
    tool = file.partition(".")[0]
    before = usual(tool)
    rewrite(importlib.import_module(module), place, factor, monkeypatch)
    noticed = [case for case, was in zip(CASES_OF[tool], before, strict=True) if notices(case, was)]
    excused = (file, comparison) in EXCEPTIONS
    assert bool(noticed) is not excused, "a case feels it: no exception is needed" if noticed else "no case feels it"


def test_limits_are_found() -> None:
    assert ("outpace.tools.input_pipeline.findings", "HIGHLY_BOUND") in LIMITS
    assert ("outpace.tools.model_time.parts", "SHORT_OP") in LIMITS
    known = {*LIMITS, *((module, comparison) for module, comparison, _ in NUMBERS)}
    assert {(m.removeprefix("outpace.tools."), n) for m, n in known} >= set(EXCEPTIONS)

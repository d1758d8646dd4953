"""What a report names at its end: the commands that catch up on what was left out for want of time or consent, where that may help."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest

from outpace.model import Command, Report
from outpace.report import terminal
from outpace.tune.climb.limits import Limits
from outpace.tune.climb.outcome import NOT_RACED, USED_UP, Climbed, Tried
from outpace.tune.optimisations.optimisation import NeedsConsent
from outpace.tune.pages.tuning import report_of
from outpace.tune.searched import Searched
from outpace.tune.texts.place import Place
from outpace.tune.trial.statistics import Estimate

MAP = Tried("parallel_map", "Run the map's function in parallel", NeedsConsent.word, "It is statistical.")
XLA = Tried("jit_compile", "XLA", NeedsConsent.word, "It is statistical.")
PLAN: dict[str, Any] = {
    "script": "my train.py",
    "argv": ["--epochs", "3"],
    "module": False,
    "fit": 1,
    "asked_budget": None,
    "budget": 140.0,
    "statistical": False,
    "only_limits": False,
}


def climbed(*tried: Tried, model_alone: tuple[float, float] | None = None) -> Climbed:
    """A search after which the model alone would be so many times as fast."""
    ratio = Estimate(sum(model_alone) / 2, *model_alone, rounds=20, spread=0.1) if model_alone else None
    limits = Limits(1.0, 1.0, 1.0, 1.0, 1.0, "", ratio, ratio, ratio, ratio) if ratio else None
    return Climbed(limits, tried, (), 60.0, "nothing else is left to try")


def following(found: Climbed, plan: dict[str, Any]) -> Sequence[Command]:
    return report_of(plan, Searched(found, None, (), Place(), plan["fit"]), None).next


@pytest.mark.parametrize(
    ("model_alone", "named"),
    [
        ((3.0, 5.0), [MAP.title]),
        ((0.98, 1.02), [XLA.title]),
        ((1.1, 1.4), [MAP.title, XLA.title]),
        (None, [MAP.title, XLA.title]),
    ],
)
def test_what_may_help_is_named(model_alone: tuple[float, float] | None, named: list[str]) -> None:
    (command,) = following(climbed(MAP, XLA, model_alone=model_alone), PLAN)
    assert command.line == "outpace tune --allow statistical 'my train.py' --epochs 3"
    assert command.what == f"may change results: {', '.join(named)}"


def test_what_the_budget_did_not_pay_for_is_named() -> None:
    (longer,) = following(climbed(Tried("jit_compile", "XLA", NOT_RACED, USED_UP)), PLAN)
    assert longer.line == "outpace tune --budget 280s 'my train.py' --epochs 3"
    assert longer.what == "has time for what was not raced: XLA"
    both = following(climbed(MAP, Tried("jit_compile", "XLA", NOT_RACED, USED_UP)), PLAN)
    assert ["--allow" in command.line for command in both] == [False, True]


def test_nothing_is_said_where_nothing_was_left_out() -> None:
    assert following(climbed(Tried("cache", "Cache in memory", "faster", "")), PLAN) == ()
    assert following(climbed(MAP), {**PLAN, "only_limits": True}) == ()


def test_the_command_keeps_what_was_asked_for() -> None:
    (command,) = following(
        climbed(MAP), {**PLAN, "fit": 2, "asked_budget": "3m", "module": True, "script": "pkg.train", "argv": []}
    )
    assert command.line == "outpace tune --allow statistical --budget 3m --fit 2 -m pkg.train"


def test_the_command_stands_whole_below_the_page_with_what_it_is_for() -> None:
    line, out = f"outpace tune --allow statistical {'a' * 80}.py", io.StringIO()
    report = Report("train.py", "", (), (), (), next=(Command(line, "may change results: " + "XLA, " * 8),))
    terminal.print_report(report, file=out, width=80, tools=["tune"], commands=True)
    shown = out.getvalue().splitlines()
    assert f"  Next        {line}" in shown
    assert all(len(row) <= 80 for row in shown if line not in row)

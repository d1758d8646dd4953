"""Commands that a report names: they catch up on what was left out, where that may help."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from outpace.model import Command, Report
from outpace.report import terminal
from outpace.stats.ratios import Estimate
from outpace.tune.climb.limits import Limits
from outpace.tune.climb.outcome import NOT_RACED, OPT_IN, USED_UP, Climbed, Tried
from outpace.tune.pages.tuning import report_of
from outpace.tune.searched import Searched
from outpace.tune.texts.place import Place
from outpace.tune.trial.record import Decision

MAP = Tried("parallel_map", "Run the map's function in parallel", OPT_IN, "", "", (1.3, 1.2, 1.4), "statistical")
CACHE = Tried("cache_any_order", "Cache in memory, shuffle behind", OPT_IN, "", "", (5.7, 5.3, 6.1), "order")
WORKERS = Tried("workers", "Workers of the PyDataset", OPT_IN, "", "", (1.5, 1.4, 1.6), "statistical")
PLAN: dict[str, Any] = {"script": "my train.py", "argv": ["--epochs", "3"], "module": False, "fit": 1, "allow": []}
PLAN |= {"asked_budget": None, "budget": 140.0, "only_limits": False, "require": "compared", "show_secrets": False}


def climbed(*tried: Tried, model_alone: tuple[float, float] | None = None) -> Climbed:
    """A search after which the model alone would be so many times faster."""
    ratio = Estimate(sum(model_alone) / 2, *model_alone, rounds=20, spread=0.1) if model_alone else None
    limits = Limits(1.0, 1.0, 1.0, 1.0, 1.0, "", ratio, ratio, ratio, ratio) if ratio else None
    return Climbed(limits, tried, (), 60.0, "nothing else is left to try")


def following(found: Climbed, plan: dict[str, Any]) -> Sequence[Command]:
    return report_of(plan, Searched(found, None, (), Place(), plan["fit"]), None).next


def test_what_consent_would_bring_is_named_by_its_class_the_largest_gain_first() -> None:
    first, second = following(climbed(MAP, WORKERS, CACHE), PLAN)
    assert first.line == "outpace tune --allow order 'my train.py' --epochs 3"
    order = "the same examples in another order or in other batches"
    assert first.what == f"{order}: Cache in memory, shuffle behind seemed 5.70 times faster"
    assert second.line == "outpace tune --allow statistical 'my train.py' --epochs 3"
    assert second.what == (
        "other random numbers: Workers of the PyDataset seemed 1.50 times faster, Run the map's function in parallel seemed 1.30 times faster"
    )
    (more,) = following(climbed(MAP), {**PLAN, "allow": ["order"]})
    assert more.line == "outpace tune --allow order --allow statistical 'my train.py' --epochs 3"


def test_the_headline_says_what_consent_would_bring() -> None:
    found = Searched(climbed(MAP, CACHE), None, (), Place(), 1)
    said = report_of(PLAN, found, None).headline
    assert said.endswith(
        "Cache in memory, shuffle behind seemed 5.70 times faster, with the same examples in another order or in other batches: --allow order."
    )


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
    terminal.print_report(report, file=out, width=80, tools=["tune"], show_commands=True)
    shown = out.getvalue().splitlines()
    assert f"  Next        {line}" in shown
    assert all(len(row) <= 80 for row in shown if line not in row)


def test_what_is_undecided_is_not_called_nothing() -> None:
    unsure = Tried("xla", "XLA", Decision.REFUSED.value, "too noisy", "", (1.48, 0.47, 4.62))
    left = Tried("steps", "several steps per call", NOT_RACED, USED_UP)
    said = report_of(PLAN, Searched(climbed(unsure, left), None, (), Place(), 1), None).headline
    assert said == (
        "Nothing was decided. XLA: 1.48 times the speed (0.47 to 4.62). Not raced for want of time: several steps per call."
    )
    same = Tried("xla", "XLA", Decision.SAME.value, "no difference", "", (1.0, 0.98, 1.02))
    said = report_of(PLAN, Searched(climbed(same), None, (), Place(), 1), None).headline
    assert said == "Nothing was found that makes the training faster (nothing else is left to try)."


def test_what_seemed_slower_is_not_called_faster() -> None:
    slower = Tried("several", "several steps per call", Decision.REFUSED.value, "too noisy", "", (0.73, 0.29, 1.86))
    unseen = Tried("xla", "XLA", Decision.REFUSED.value, "too few rounds")
    said = report_of(PLAN, Searched(climbed(unseen, slower), None, (), Place(), 1), None).headline
    assert said == "Nothing was decided. several steps per call: 0.73 times the speed (0.29 to 1.86); XLA: too few rounds."

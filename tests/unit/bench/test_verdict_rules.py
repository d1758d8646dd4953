"""The rules of others that `bench/verdicts` restates: against SciPy, and at their own limits."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

stats = pytest.importorskip("scipy.stats")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def rules() -> Any:
    """The module, which is a script's and no package's."""
    spec = importlib.util.spec_from_file_location("verdict_rules", ROOT / "bench" / "verdicts" / "rules.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def _steps(mean: float, spread: float = 0.01, count: int = 60, seed: int = 0) -> Any:
    """Step times with exactly that mean and standard deviation."""
    drawn = np.random.default_rng(seed).standard_normal(count)
    return mean * (1 + spread * (drawn - drawn.mean()) / drawn.std())


def _rule(rules: Any, name: str) -> Any:
    return next(rule for rule in rules.RULES if rule.name.startswith(name))


def test_mann_whitney_is_scipys_at_five_percent(rules: Any) -> None:
    one, two = _steps(100, seed=1), _steps(100.4, seed=2)
    score = rules.mann_whitney(rules.Sample((one,)), rules.Sample((two,)))
    p = stats.mannwhitneyu(one, two, alternative="two-sided").pvalue
    assert score == pytest.approx(-math.log10(p))
    assert _rule(rules, "Mann-Whitney").calls(score) == (p <= 0.05)


def test_criterions_p_is_that_of_welchs_test(rules: Any) -> None:
    one, two = _steps(100, seed=1), _steps(100.3, seed=2)
    p = rules.bootstrapped_p(two, one, np.random.default_rng(0))
    assert p == pytest.approx(stats.ttest_ind(two, one, equal_var=False).pvalue, abs=0.02)


@pytest.mark.parametrize(
    "mean, spread, called",
    [
        (100.8, 0.005, False),  # significant, and within the noise threshold
        (103.0, 0.2, False),  # large, and no more than chance
        (103.0, 0.01, True),
        (97.0, 0.01, True),
    ],
)
def test_criterion_asks_for_both_gates(rules: Any, mean: float, spread: float, called: bool) -> None:
    one, two = (rules.Sample((_steps(at, spread, seed=seed),)) for at, seed in ((100, 1), (mean, 2)))
    score = rules.criterion(one, two)
    assert _rule(rules, "criterion").calls(score) is called
    assert not called or (score > 0) == (mean > 100)


def test_pinpoint_takes_the_smaller_p(rules: Any) -> None:
    same_middle = np.concatenate((np.linspace(80, 90, 20), np.linspace(110, 120, 20)))
    narrow = np.linspace(98, 102.5, 40)
    score = rules.pinpoint(rules.Sample((narrow,)), rules.Sample((same_middle,)))
    ranks = stats.mannwhitneyu(narrow, same_middle, alternative="two-sided", method="asymptotic").pvalue
    apart = stats.ks_2samp(narrow, same_middle, method="asymp").pvalue
    assert apart < 0.05 < ranks
    assert 10 ** -abs(score) == pytest.approx(apart, rel=0.5)


def test_nsys_ai_has_a_floor_and_refuses_other_work(rules: Any) -> None:
    gate = _rule(rules, "nsys-ai")
    counts = {("MatMul", f"layer_{at}"): 60 for at in range(8)}
    other = {("MatMul", f"other_{at}"): 60 for at in range(8)}
    before = rules.Sample((_steps(100),), counts=counts)
    assert rules.nsys_ai(before, rules.Sample((_steps(101.9),), counts=counts)) == 0
    assert not gate.calls(rules.nsys_ai(before, rules.Sample((_steps(104.9),), counts=counts)))
    assert gate.calls(rules.nsys_ai(before, rules.Sample((_steps(105.1),), counts=counts)))
    assert not gate.calls(rules.nsys_ai(before, rules.Sample((_steps(150),), counts=other)))


def test_xprof_compares_totals_of_captures_and_says_nothing_of_a_host(rules: Any) -> None:
    one, longer = rules.Sample((_steps(100),), (1000.0,), (50.0,)), rules.Sample((_steps(100, count=66),), (1100.0,), (50.0,))
    assert rules.xprof(one, longer) == pytest.approx(0.1)
    assert rules.xprof(rules.Sample((_steps(100),)), rules.Sample((_steps(200),))) == 0


def test_several_captures_are_the_repetitions(rules: Any) -> None:
    side = rules.Sample((_steps(100, count=30), _steps(110, count=60)))
    assert side.repetitions == pytest.approx([100, 110])
    assert side.mean == pytest.approx(105)

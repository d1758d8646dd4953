"""Ratios of texts with several processes each: simulated coverage, SciPy's Welch and integrals,
outliers, turns.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from outpace.stats.autocorrelation import inflated_variance
from outpace.stats.instances import Rates, compare_instances, spread_of
from outpace.stats.planning import minimal_detectable_effect
from outpace.stats.random_effects import FALLING, TYPICAL, Spread
from outpace.stats.ratios import Estimate
from tests.unit.tune.simulated import NOISE, exact, processes

pytestmark = pytest.mark.slow


def races(
    number: int, texts: int, count: int, rounds: int, tau: float, rho: float, hits: float = 0.0, gain: float = 0.0
) -> list[Estimate]:
    """Estimates of the second text of a tuning against the first, which is slower by `gain` (a log
    ratio).
    """
    source, found = random.Random(f"{texts} {count} {rounds} {tau} {rho} {hits}"), []
    for _ in range(number):
        drift = [source.gauss(0, NOISE) for _ in range(rounds)]
        base, other, *more = (processes(source, drift, count, tau, rho, hits) for _ in range(texts))
        faster = [{at: rate * math.exp(gain) for at, rate in each.items()} for each in other]
        estimate = compare_instances(base, faster, [spread for each in more if (spread := spread_of(each)) is not None])
        assert estimate is not None
        found.append(estimate)
    return found


def held(found: list[Estimate]) -> float:
    return sum(each.contains(1.0) for each in found) / len(found)


def width(found: list[Estimate]) -> float:
    """Half the median interval, as a log ratio."""
    return float(np.median([each.half for each in found]))


@pytest.mark.parametrize(
    ("texts", "count", "rounds", "tau", "rho", "widest"),
    [(2, 2, 8, 0.0, 0.0, 2.3), (2, 2, 8, 0.01, 0.5, 1.7), (2, 2, 30, 0.02, 0.0, 1.5), (5, 2, 12, 0.02, 0.3, 1.3),
     (5, 2, 30, 0.01, 0.3, 1.3), (5, 2, 30, 0.0, 0.0, 1.7), (2, 4, 12, 0.02, 0.5, 1.3)],
)  # fmt: skip
def test_intervals_hold_the_truth_and_are_not_much_wider_than_they_must_be(
    texts: int, count: int, rounds: int, tau: float, rho: float, widest: float
) -> None:
    """At least 93% of them should (300 races have a standard error of 1.3%; seeds are fixed)."""
    found = races(300, texts, count, rounds, tau, rho)
    assert held(found) >= 0.92
    assert width(found) <= widest * exact(count, rounds, tau, rho)


@pytest.mark.verify
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("tau", [0.0, 0.01, 0.02])
@pytest.mark.parametrize("rounds", [8, 15, 30])
@pytest.mark.parametrize(("texts", "count"), [(2, 2), (2, 3), (2, 4), (5, 2), (5, 4)])
def test_intervals_hold_the_truth_everywhere(texts: int, count: int, rounds: int, tau: float, rho: float) -> None:
    """At least 93%, less two and a half standard errors of the share of 300 races."""
    assert held(races(300, texts, count, rounds, tau, rho)) >= 0.93 - 2.5 * math.sqrt(0.05 * 0.95 / 300)


def test_what_other_texts_say_of_processes_narrows_an_interval() -> None:
    alone, pooled = (races(100, texts, 2, 20, 0.0, 0.0) for texts in (2, 6))
    assert width(pooled) < 0.8 * width(alone)
    calm = [Spread(0.0, 1, 1e-5, 20, 0.0)] * 6
    wild = [Spread(0.003, 1, 1e-5, 20, 0.0)] * 6
    source = random.Random(1)
    base, other = (processes(source, [0.0] * 20, 2, 0.0, 0.0) for _ in range(2))
    halves = [found.half for known in (calm, (), wild) if (found := compare_instances(base, other, known)) is not None]
    assert halves == sorted(halves) and halves[2] > 3 * halves[0]


def test_blocks_that_a_neighbour_hits_neither_decide_nor_make_it_blind() -> None:
    """One block in twenty takes 1.6 times as long: the plain means of such processes are 2.4% apart
    by them alone.
    """
    found = races(300, 5, 2, 15, 0.01, 0.0, hits=0.05)
    assert held(found) >= 0.92
    errors = [math.log(each.ratio) for each in found]
    assert float(np.std(errors)) < 1.25 * exact(2, 15, 0.01, 0.0) / 1.96
    assert width(found) < 1.6 * exact(2, 15, 0.01, 0.0)


def test_many_processes_give_welchs_interval() -> None:
    """With 20 processes a side that differ by 5%, rounds and prior say next to nothing, and the
    processes' means are a textbook's sample.
    """
    ratios = []
    for seed in range(10):
        source = random.Random(seed)
        base, other = (processes(source, [0.0] * 10, 20, 0.05, 0.0) for _ in range(2))
        found = compare_instances(base, other)
        means = [[float(np.mean(np.log(list(each.values())))) for each in side] for side in (base, other)]
        welch: Any = stats.ttest_ind(means[1], means[0], equal_var=False)
        interval = welch.confidence_interval(0.95)
        assert found is not None
        assert math.log(found.ratio) == pytest.approx(interval.low / 2 + interval.high / 2, abs=0.004)
        ratios.append(found.half / ((interval.high - interval.low) / 2))
    assert float(np.mean(ratios)) == pytest.approx(1.0, abs=0.04)


def test_the_interval_is_the_quantile_of_scipys_integral() -> None:
    """The same model, written with SciPy's distributions and integrated over tau, with the variance
    of rounds and rho as good as known.
    """
    rounds, known = 400, [Spread(4e-4, 3, 1e-6, 400, 0.0)]
    source = random.Random(5)
    base, other = (processes(source, [0.0] * rounds, 2, 0.015, 0.0) for _ in range(2))
    found = compare_instances(base, other, known)
    assert found is not None
    sides = [spread_of(side) for side in (base, other)]
    told = [(each.squares, each.freedom) for each in (*sides, *known) if each is not None]
    within = NOISE**2 / rounds

    def posterior(tau: float) -> float:
        variance = tau**2 + within
        density = float(stats.halfcauchy.pdf(tau, scale=TYPICAL))
        for squares, freedom in told:
            density *= float(stats.chi2.pdf(squares * freedom / variance, freedom)) * freedom / variance
        return density

    total = integrate.quad(posterior, 0, 1, points=[0.003, 0.01, 0.03, 0.1], limit=200)[0]

    def beyond(half: float) -> float:
        tail = integrate.quad(
            lambda tau: posterior(tau) * 2 * float(stats.norm.sf(half, scale=math.sqrt(tau**2 + within))),
            0, 1, points=[0.003, 0.01, 0.03, 0.1], limit=200,
        )[0]  # fmt: skip
        return float(tail / total) - 0.05

    assert found.half == pytest.approx(float(optimize.brentq(beyond, 0.001, 1.0)), rel=0.05)


def test_the_variance_of_a_mean_of_alike_values_is_that_of_its_covariances() -> None:
    for rho, rounds in ((0.0, 8), (0.5, 8), (0.3, 30)):
        covariance = rho ** np.abs(np.subtract.outer(np.arange(rounds), np.arange(rounds)))
        centred = np.eye(rounds) - 1 / rounds
        own = float(np.trace(centred @ covariance) / (rounds - 1)) / rounds  # what a sample's variance is in the mean
        assert inflated_variance(own, rho, rounds) == pytest.approx(float(covariance.mean()))
    assert math.exp(-0.5 / FALLING) > 0.2  # rho of 0.5 is no surprise


def test_the_smallest_gain_is_shown_as_often_as_it_says() -> None:
    gain = float(np.median([minimal_detectable_effect(each) for each in races(200, 5, 2, 15, 0.01, 0.0)]))
    shown = [each.low > 1 for each in races(200, 5, 2, 15, 0.01, 0.0, gain=math.log1p(gain))]
    assert 0.7 <= sum(shown) / 200 <= 0.9


def in_turns(source: random.Random, turns: int, tau: float, drift: float) -> tuple[list[Rates], list[Rates]]:
    """Processes of two texts of which one lives at a time: the machine is another one for each."""
    sides: tuple[list[Rates], list[Rates]] = ([], [])
    for turn in range(turns):
        for side in sides:
            place = source.gauss(0, tau) + source.gauss(0, drift)
            side.append({8 * turn + at: math.exp(place + source.gauss(0, NOISE)) for at in range(8)})
    return sides


@pytest.mark.parametrize(("turns", "tau", "drift"), [(3, 0.01, 0.02), (5, 0.0, 0.05), (8, 0.02, 0.0)])
def test_turns_are_the_sample_where_processes_run_in_turns(turns: int, tau: float, drift: float) -> None:
    source, found = random.Random(turns), []
    for _ in range(300):
        estimate = compare_instances(*in_turns(source, turns, tau, drift))
        assert estimate is not None
        found.append(estimate)
    assert held(found) >= 0.92
    assert width(found) < 2.2 * 1.96 * math.sqrt(2 / turns * (tau**2 + drift**2 + NOISE**2 / 8))


def test_one_process_of_each_has_the_priors_interval() -> None:
    """It says nothing of how processes differ, however many its rounds are, and holds 2 % and 5 %
    of difference more often than it says.
    """
    flat, faster = dict.fromkeys(range(1000), 1.0), dict.fromkeys(range(1000), 1.3)
    found, strict = (compare_instances([flat], [faster], level=level) for level in (0.95, 0.99))
    assert found is not None and strict is not None
    assert found.ratio == pytest.approx(1.3)
    assert 1.15 < found.high / found.ratio < 1.25 and strict.high / strict.ratio > 1.4
    for tau in (0.02, 0.05):
        source = random.Random(3)
        sides = [[processes(source, [0.0] * 20, 1, tau, 0.0) for _ in range(300)] for _ in range(2)]
        both = [estimate for a, b in zip(*sides, strict=True) if (estimate := compare_instances(a, b)) is not None]
        assert len(both) == 300 and held(both) >= 0.97
    more = compare_instances([flat], [faster, faster])
    assert more is not None and more.half < found.half


def test_too_little_gives_no_estimate() -> None:
    flat = dict.fromkeys(range(8), 1.0)
    assert compare_instances([], [flat, flat]) is None
    assert compare_instances([{0: 1.0, 1: 1.0}] * 2, [{0: 1.0, 1: 1.0}] * 2) is None
    assert spread_of([flat]) is None
    found = compare_instances([flat, flat], [dict.fromkeys(range(8), 1.1)] * 2)
    assert found is not None and found.ratio == pytest.approx(1.1)

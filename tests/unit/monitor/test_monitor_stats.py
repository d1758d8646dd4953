"""Quantiles within their stated resolution, and slowdowns told from noise."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from outpace.monitor.stats import Histogram, Slowdown, SlowdownDetector

MS = 1_000_000


@pytest.mark.parametrize("scale", [1, 700, 5 * MS, 40_000 * MS])
def test_quantiles_are_as_exact_as_promised(scale: int) -> None:
    draw = random.Random(1)
    values = sorted(int(draw.lognormvariate(0, 1) * scale) for _ in range(5000))
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    assert histogram.count == 5000
    assert histogram.mean == sum(values) / 5000
    assert histogram.maximum == values[-1]
    for share in (0.01, 0.5, 0.95, 1.0):
        exact = values[int(share * 5000) - 1]
        assert histogram.quantile(share) == pytest.approx(exact, rel=1 / 64 + 1e-9, abs=0.51)


def test_a_histogram_stays_small_and_merges() -> None:
    draw = random.Random(2)
    one, two, both = Histogram(), Histogram(), Histogram()
    for number in range(20_000):
        value = int(draw.lognormvariate(0, 2) * MS)
        (one if number % 2 else two).add(value)
        both.add(value)
    one.merge(two)
    assert vars(one) == vars(both)
    assert len(one._buckets) < 32 * 30
    assert Histogram().quantile(0.5) == Histogram().mean == 0.0


def found(durations: Iterable[float], ratio: float = 1.5) -> list[Slowdown]:
    """The slowdowns that a detector sees in durations in ms."""
    detector = SlowdownDetector(ratio)
    answers = [detector.add(number, int(value * MS)) for number, value in enumerate(durations, 1)]
    return [answer for answer in answers if answer is not None]


def noise(draw: random.Random, number: int) -> float:
    """5 ms steps with a lognormal spread, garbage collections, epoch boundaries, and one step of 2
    s.
    """
    value = 5 * draw.lognormvariate(0, 0.35)
    value += 30 * (draw.random() < 0.02)
    value += 400 * (number % 157 == 0)
    return value + 2000 * (number == 5000)


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_slowdown(seed: int) -> None:
    draw = random.Random(seed)
    assert found(noise(draw, number) for number in range(10_000)) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_lasting_slowdown_is_told_once(seed: int) -> None:
    draw = random.Random(seed)
    (slow,) = found(noise(draw, number) * (2.4 if number >= 3000 else 1) for number in range(10_000))
    assert 2980 <= slow.since <= 3020
    assert slow.before == pytest.approx(5 * MS, rel=0.15)
    assert slow.after == pytest.approx(12 * MS, rel=0.15)


def _levels(*levels: tuple[int, float]) -> Callable[[], Iterable[float]]:
    draw = random.Random(7)
    return lambda: (value * draw.lognormvariate(0, 0.05) for count, value in levels for _ in range(count))


def test_a_slowdown_after_a_recovery_is_told_again() -> None:
    answers = found(_levels((2000, 5), (1000, 12), (2000, 5), (1000, 15))())
    assert [round(answer.after / answer.before, 1) for answer in answers] == [2.4, 3.0]


def test_a_short_burst_of_slow_steps_is_none() -> None:
    assert found(_levels((1000, 5), (60, 12), (1000, 5))()) == []


def test_a_slow_drift_below_the_ratio_is_none() -> None:
    assert found(_levels((2000, 5), (2000, 6.5))()) == []


def test_long_steps_need_no_thousands() -> None:
    (slow,) = found(_levels((230, 30_000), (40, 60_000))())
    assert slow.since == 231

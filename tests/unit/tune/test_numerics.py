"""The verdict over losses, on simulated trainings: noise stays inside the band, a bias and what is not finite do not."""

from __future__ import annotations

import math
import random

import pytest

from outpace.tune.numerics import MARGINS, ROUNDING, affordable, judge

STEPS = 30


def training(seed: int, speed: float = 0.02, noise: float = 0.1) -> list[float]:
    """Losses of a training that learns at a speed, with noise from step to step."""
    chance = random.Random(seed)
    return [2 * math.exp(-speed * step) + chance.gauss(0, noise) for step in range(STEPS)]


def controls(count: int) -> list[list[float]]:
    return [training(100 + seed) for seed in range(count)]


@pytest.mark.parametrize("count", sorted(MARGINS))
def test_the_same_training_with_other_noise_is_rarely_outside(count: int) -> None:
    outside = 0
    for seed in range(200):
        group = [training(10_000 + 20 * seed + each) for each in range(count + 2)]
        outside += not judge(group[0], group[1], group[2:]).inside
    assert outside <= 6  # 3%


def test_a_training_that_does_not_learn_is_outside() -> None:
    band = judge(training(1), training(2, speed=0.0), controls(8))
    assert not band.inside
    assert band.worst > 1
    assert band.objection == band.sentence
    assert "leave the band" in band.sentence


def test_the_band_never_widens_and_is_in_units_of_the_loss() -> None:
    band = judge(training(1), training(2), controls(4))
    assert list(band.band) == sorted(band.band, reverse=True)
    assert 0 < band.band[-1] < 0.5
    assert band.base[1] == pytest.approx(sum(training(1)[:2]) / 2)


def test_without_chance_only_rounding_is_inside() -> None:
    same = training(1)
    assert judge(same, [loss * (1 + ROUNDING / 2) for loss in same], [same] * 3).inside
    assert not judge(same, [loss * (1 + 2 * ROUNDING) for loss in same], [same] * 3).inside


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_named(wrong: float) -> None:
    bad = training(1)
    bad[6] = wrong
    band = judge(training(1), bad, controls(3))
    assert not band.inside
    assert band.failed_at == 6
    assert "the loss of step 7" in band.sentence


def test_a_program_that_diverges_itself_is_no_objection() -> None:
    bad = [*training(1)[:-3], math.nan, math.nan, math.nan]
    assert judge(bad, bad, controls(3)).inside


@pytest.mark.parametrize(("gradients", "inside"), [(1.02, True), (3.0, False), (0.5, False), (None, True)])
def test_gradients_of_another_size_are_outside(gradients: float | None, inside: bool) -> None:
    band = judge(training(1), training(1), controls(3), gradients=gradients)
    assert band.inside is inside
    assert ("gradients" in band.sentence) == (gradients is not None)


@pytest.mark.parametrize(
    ("seconds", "each", "count"), [(None, 9.0, 8), (100.0, 1.0, 8), (7.5, 1.0, 5), (1.0, 1.0, 3), (1.0, 0.0, 8)]
)
def test_controls_that_the_time_allows(seconds: float | None, each: float, count: int) -> None:
    assert affordable(seconds, each) == count

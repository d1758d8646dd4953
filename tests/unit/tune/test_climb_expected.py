"""What a cache is expected to save, from the model alone and from what is read behind the cache."""

from __future__ import annotations

import math

import pytest

from outpace.tune.climb.expected import BETWEEN, saved
from outpace.tune.trial.statistics import Estimate

NEXT = math.exp(BETWEEN)  # how far from the middle another race may end, where this one is exact


def model(ratio: float, width: float = 1.0) -> Estimate:
    """A model that is so many times as fast alone; `width`: the interval's ends are that factor away."""
    return Estimate(ratio, ratio / width, ratio * width, 20, 0.1)


def test_with_nothing_left_behind_the_cache_a_step_is_the_model_alone() -> None:
    found = saved(model(2.0), 0.0)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((1 - NEXT / 2, 1 - 1 / NEXT / 2))


def test_what_is_left_is_in_the_models_shadow_or_on_top_of_it() -> None:
    found = saved(model(2.0), 0.2)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((1 - NEXT / 2 - 0.2, 1 - 1 / NEXT / 2))
    slower = saved(model(4.0), 0.5)  # reading takes longer than the model: nothing hides it
    assert slower is not None
    assert (slower.low, slower.high) == pytest.approx((1 - NEXT / 4 - 0.5, 0.5))


def test_the_race_that_will_measure_it_has_an_interval_of_its_own() -> None:
    found = saved(model(2.0, width=1.1), 0.0)
    assert found is not None
    apart = math.exp(math.sqrt(2 * math.log(1.1) ** 2 + BETWEEN**2))
    assert (found.low, found.high) == pytest.approx((1 - apart / 2, 1 - 1 / apart / 2))


@pytest.mark.parametrize(("ratio", "rest"), [(1.1, 0.0), (1.5, 0.4), (0.9, 0.0)])
def test_an_interval_that_touches_zero_is_no_prediction(ratio: float, rest: float) -> None:
    assert saved(model(ratio), rest) is None

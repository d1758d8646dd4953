"""Quantiles and bootstrap intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpace.model import Unit
from outpace.model.interval import bootstrap_mean, bootstrap_saving, leave_one_out_medians, median, quantiles

SAMPLES = st.lists(st.floats(0, 1e12), min_size=1)


@given(SAMPLES, st.floats(0, 1))
def test_quantiles_are_numpys(samples: list[float], share: float) -> None:
    assert quantiles(samples, share)[0] == pytest.approx(np.quantile(samples, share), rel=1e-9, abs=1e-6)


def test_the_mean_lies_in_its_interval_as_often_as_promised() -> None:
    source = np.random.default_rng(7)
    held = [(found := bootstrap_mean(source.normal(100, 10, 40), Unit.PS, "")).low <= 100 <= found.high for _ in range(300)]
    assert 0.90 <= np.mean(held) <= 0.98


@given(SAMPLES)
def test_a_saving_is_never_more_than_the_step(steps: list[float]) -> None:
    saved, share = bootstrap_saving(np.array(steps) * 0.5, steps, "")
    assert 0 <= share.low <= share.high <= 0.5 + 1e-9
    assert saved.high <= np.mean(steps) * 0.5 * (1 + 1e-9) + 1e-9


def test_many_samples_need_no_draws_and_say_the_same() -> None:
    source = np.random.default_rng(3)
    steps = source.gamma(4.0, 10.0, 4999)
    drawn, exact = bootstrap_mean(steps, Unit.PS, ""), bootstrap_mean(np.append(steps, steps[:2]), Unit.PS, "")
    assert exact.low == pytest.approx(drawn.low, rel=0.005)
    assert exact.high == pytest.approx(drawn.high, rel=0.005)
    part = steps * source.uniform(0.2, 0.4, len(steps))
    _, share = bootstrap_saving(part, steps, "")
    _, more = bootstrap_saving(np.append(part, part[:2]), np.append(steps, steps[:2]), "")
    assert more.low == pytest.approx(share.low, rel=0.005)
    assert more.high == pytest.approx(share.high, rel=0.005)


@pytest.mark.parametrize("count", [2, 3, 8, 9])
def test_the_median_of_the_others_is_theirs(count: int) -> None:
    samples = np.random.default_rng(count).integers(0, 6, (count, 4)).astype(float)
    others = [[median(np.delete(samples[:, column], row)) for column in range(4)] for row in range(count)]
    assert leave_one_out_medians(samples).tolist() == others
    assert leave_one_out_medians(samples[:, 1]).tolist() == [row[1] for row in others]

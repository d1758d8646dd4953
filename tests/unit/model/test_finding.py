"""A finding has proof; a saving is a share of the step."""

from __future__ import annotations

from math import inf, nan

import pytest

from outpace.model import Finding, Saving, Severity


@pytest.mark.parametrize(("low", "high"), [(-0.1, 0.2), (0.3, 0.2), (0.0, 1.1), (nan, 0.2), (0.0, nan), (0.0, inf)])
def test_what_is_no_share_is_no_saving(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="no share"):
        Saving(low, high, ("input",), "so")


def test_a_bound_counts_by_its_end_and_a_prediction_by_its_middle() -> None:
    bound, prediction = Saving(0.0, 0.4, ("input",), "so"), Saving(0.2, 0.4, ("input",), "so")
    assert (bound.is_predicted, bound.expected) == (False, 0.4)
    assert prediction.is_predicted is True
    assert prediction.expected == pytest.approx(0.3)


def test_no_advice_without_evidence() -> None:
    with pytest.raises(ValueError, match="has no evidence"):
        Finding("rule", Severity.HIGH, "It is.", "Do.", ())

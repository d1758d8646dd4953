"""What a headline says of more than half of a step is answered, and not by a trifle."""

from __future__ import annotations

import re

import pytest

from outpace.model import Severity
from tests.support import PROFILES, opened

HALF, TENTH = 50.0, 0.1


def largest_share(name: str) -> float:
    """The largest share of something that a headline states, in percent."""
    return max(map(float, re.findall(r"(\d+(?:\.\d+)?)% of", opened(name).report().headline)), default=0.0)


@pytest.mark.parametrize(("name", "share"), [("tfdata_heavy", 90.0), ("retracing", 56.0), ("idle_empty", 0.0)])
def test_shares_are_read_from_headlines(name: str, share: float) -> None:
    assert largest_share(name) == pytest.approx(share, abs=1)


@pytest.mark.parametrize("name", PROFILES)
def test_more_than_half_of_a_step_is_answered_by_more_than_a_tenth(name: str) -> None:
    if largest_share(name) <= HALF:
        return
    changes = [finding for finding in opened(name).report().findings if finding.severity is not Severity.INFO]
    assert changes
    assert changes[0].saving is None or changes[0].saving.high >= TENTH, changes[0].sentence

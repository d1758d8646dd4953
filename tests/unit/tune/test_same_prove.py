"""How long a run is followed behind its training."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from outpace.tune.same.prove import BEHIND, QUIET, Original
from outpace.tune.same.record import CUT_SHORT, Record


def original(*, ended: str, over: bool, told: float) -> Original:
    """A script whose first run is over."""
    found = Original("train.py")
    first: Future[Record] = Future()
    first.set_result(Record({}, {}, (), ended, over=over, told=told))
    found._runs = [first]
    return found


@pytest.mark.parametrize(
    ("ended", "over", "seconds"),
    [(CUT_SHORT, True, 4.0 + QUIET), ("", True, BEHIND), (CUT_SHORT, False, BEHIND), ("ValueError: no", True, BEHIND)],
    ids=["cut behind its training", "to its end", "cut in its training", "failed"],
)
def test_nobody_waits_longer_than_the_first_run_said_something(ended: str, over: bool, seconds: float) -> None:
    assert original(ended=ended, over=over, told=4.0)._behind(False) == seconds


def test_it_is_never_longer_than_the_first_one_got() -> None:
    assert original(ended=CUT_SHORT, over=True, told=BEHIND - 1.0)._behind(False) == BEHIND


def test_a_run_that_only_counts_passes_is_not_followed() -> None:
    assert Original("train.py")._behind(True) == QUIET
    assert Original("train.py")._behind(False) == BEHIND

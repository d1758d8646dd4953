"""Faults of our own beside a training are counted, and the program's own exceptions pass."""

from __future__ import annotations

import pytest

from outpace.capture import faults
from outpace.capture.faults import count, counts, quietly
from outpace.capture.stacks import owner_of


@pytest.fixture(autouse=True)
def none_yet() -> None:
    faults._counts.clear()


def test_a_fault_ends_the_block_and_is_counted_by_its_line_of_ours() -> None:
    for _ in range(3):
        with quietly():
            owner_of(None)  # type: ignore[arg-type]  # a fault inside code of ours
    ((place, times),) = counts().items()
    assert times == 3 and place.startswith("capture/stacks.py:") and place.endswith(" AttributeError")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_the_program_passes(kind: type[BaseException]) -> None:
    with pytest.raises(kind), quietly():
        raise kind
    assert not counts()


def test_a_block_without_faults_counts_none() -> None:
    with quietly():
        pass
    assert counts() == {}


def test_there_are_no_more_places_than_a_record_can_hold() -> None:
    for number in range(2 * faults._MOST):
        count(type(f"Fault{number}", (Exception,), {})())
    assert len(counts()) == faults._MOST

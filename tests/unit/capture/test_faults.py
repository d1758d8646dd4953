"""Faults of our own beside a training are counted, and the program's own exceptions pass."""

from __future__ import annotations

import pytest

from outpace.capture import faults
from outpace.capture.faults import count_fault, fault_counts, suppress_faults
from outpace.capture.stacks import owner_of


@pytest.fixture(autouse=True)
def none_yet() -> None:
    faults._counts.clear()


def test_a_fault_ends_the_block_and_is_counted_by_its_line_of_ours() -> None:
    for _ in range(3):
        with suppress_faults():
            owner_of(None)  # type: ignore[arg-type]  # a fault inside code of ours
    ((place, times),) = fault_counts().items()
    assert times == 3 and place.startswith("capture/stacks.py:") and place.endswith(" AttributeError")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_the_program_passes(kind: type[BaseException]) -> None:
    with pytest.raises(kind), suppress_faults():
        raise kind
    assert not fault_counts()


def test_a_block_without_faults_counts_none() -> None:
    with suppress_faults():
        pass
    assert fault_counts() == {}


def test_there_are_no_more_places_than_a_record_can_hold() -> None:
    for number in range(2 * faults._MAX_PLACES):
        count_fault(type(f"Fault{number}", (Exception,), {})())
    assert len(fault_counts()) == faults._MAX_PLACES

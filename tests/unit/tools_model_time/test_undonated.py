"""What copies of undonated arguments stand for: the part, the kind of op and the model that they are most of, and no other."""

from __future__ import annotations

import pytest

from outpace.model import Finding
from tests.advice_cases.case import Find
from tests.advice_cases.model_time import undonated


def explained(find: Find) -> tuple[set[str], set[str]]:
    """(rules that the copies explain, rules that spoke)."""
    found: dict[str, Finding] = {finding.id: finding for finding in find()}
    return set(found["undonated"].explains), set(found)


@pytest.mark.parametrize(
    ("find", "expected"),
    [
        (undonated(0.6, line=0.65), {"slow_part", "slow_kind", "model_bound"}),
        (undonated(0.3, line=0.4), {"slow_part"}),
        (undonated(0.15, line=0.4), set()),
        (undonated(0.3, moved=0.4), {"slow_kind"}),
        (undonated(0.15, moved=0.4), set()),
        (undonated(0.3, largest=0.4), set()),
    ],
    ids=["most of the step", "most of its line", "a part of its line", "most copies", "some copies", "beside products"],
)
def test_copies_stand_for_what_they_are_most_of(find: Find, expected: set[str]) -> None:
    explains, spoke = explained(find)
    assert explains == expected
    assert spoke & {"slow_part", "slow_kind"}, "what might be explained was found"

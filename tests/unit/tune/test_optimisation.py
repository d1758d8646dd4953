"""What all optimisations share, whatever they change: names, and an answer that asks for consent where the user has not given it."""

from __future__ import annotations

from typing import Any

import pytest

from outpace.tune.optimisations import all_rewrites, environment_knobs, knobs
from outpace.tune.optimisations.optimisation import Answer, Applies, Explained, NeedsConsent, NotApplicable, Optimisation, asked
from outpace.tune.risk import Risk

SAFE = frozenset({Risk.EXACT, Risk.REORDERED})
ALL: tuple[Optimisation[Any], ...] = (*all_rewrites(), *knobs(), *environment_knobs())


class Given(Optimisation[Answer]):
    """Answers what it is asked about."""

    id = title = practice = "given"

    def __init__(self, opt_in: str = "") -> None:
        self.opt_in = opt_in

    def applies(self, subject: Answer, /) -> Answer:
        return subject


def test_there_are_all_kinds_and_each_has_a_name_of_its_own() -> None:
    kinds = (all_rewrites(), knobs(), environment_knobs())
    assert [len(kind) for kind in kinds] == [10, 14, 8]
    assert len({each.id for each in ALL}) == len(ALL)
    assert all(each.title and each.practice for each in ALL)


@pytest.mark.parametrize("answer", [NotApplicable("It has no map."), Explained("It could.", "It is yours to do.")])
def test_what_does_not_apply_needs_no_consent(answer: Answer) -> None:
    assert asked(Given("nobody reads the files"), answer, SAFE) is answer


def test_what_may_change_results_needs_consent() -> None:
    applies = Applies("It waits.", Risk.STATISTICAL)
    found = asked(Given(), applies, SAFE)
    assert found == NeedsConsent("It waits. It is statistical: it is tried only if you allow that.")
    assert asked(Given(), applies, SAFE | {Risk.STATISTICAL}) is applies


def test_what_is_safe_on_a_condition_names_it() -> None:
    applies, given = Applies("It waits.", Risk.EXACT), Given("nobody reads the files")
    found = asked(given, applies, SAFE)
    assert found == NeedsConsent("It waits. It assumes that nobody reads the files: it is tried only if you allow that.")
    assert asked(given, applies, SAFE | {Risk.STATISTICAL}) is applies
    assert asked(Given(), applies, SAFE) is applies

"""What all optimisations share, whatever they change: names, and the classes of consent."""

from __future__ import annotations

from typing import Any

from outpace.cli.tune import Allow
from outpace.tune.optimisations import all_rewrites, knobs
from outpace.tune.optimisations.optimisation import Optimisation
from outpace.tune.risk import CONSENTS, Risk

ALL: tuple[Optimisation[Any], ...] = (*all_rewrites(), *knobs())


def test_there_are_all_kinds_and_each_has_a_name_of_its_own() -> None:
    kinds = (all_rewrites(), knobs())
    assert all(kinds)
    assert len({each.id for each in ALL}) == len(ALL)
    assert all(each.title and each.practice for each in ALL)


def test_each_class_of_consent_is_one_risk_and_an_option_of_the_command() -> None:
    assert {risk.consent for risk in Risk} - {""} == set(CONSENTS) == {each.value for each in Allow}
    assert not Risk.EXACT.consent and not Risk.REORDERED.consent


def test_what_changes_more_than_another_names_that_other() -> None:
    ids = {each.id for each in ALL}
    assert {each.instead_of for each in ALL} - {""} == {"cache"} <= ids

"""What is kept of a stack: changes that need consent do not stand for the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from outpace.tune.climb.candidates import Candidate
from outpace.tune.climb.outcome import Climbed
from outpace.tune.proof import _judged, _strictly, passes_for
from outpace.tune.risk import Risk
from outpace.tune.same import Judgement, Original
from outpace.tune.searched import Searched, Stack
from outpace.tune.texts.place import Place

SAME, OTHER = Judgement(True, "the same program"), Judgement(False, "It is another program.", faults=("step 4",))
UNKNOWN, FAILS = Judgement(None, "No pass could be compared."), Judgement(False, "It ends with an error.", runs=False)


class Answers:
    """A comparison that knows the outcome of each text."""

    def __init__(self, **known: Judgement) -> None:
        self.known, self.asked = known, list[str]()

    def confirmed(self, texts: Mapping[str, str], grouped: bool, is_exact: bool, seconds: float) -> Judgement:
        return self.against(texts, grouped, is_exact)

    def against(self, texts: Mapping[str, str], grouped: bool, is_exact: bool) -> Judgement:
        self.asked.append(texts["train.py"])
        return self.known[texts["train.py"]]


def stack(text: str, *consents: bool) -> Stack:
    changes = [
        Candidate(str(at), str(at), "why", Risk.EXACT, (), (), consent="order" if consent else "")
        for at, consent in enumerate(consents)
    ]
    return Stack(tuple(changes), {"train.py": text})


def outcome(less: Stack | None, whole: Stack, **known: Judgement) -> tuple[Judgement, list[str]]:
    searched = Searched(Climbed(None, (), (), 1.0, "over"), whole, (), Place(), 1, less)
    answers: Any = Answers(**known)
    original = cast("Original", answers)
    found = _judged(original, whole, whole.consents and _strictly(original, searched, whole), 60.0)
    return found, answers.asked


def test_a_change_with_consent_may_change_the_numbers() -> None:
    found, asked = outcome(None, stack("both", True), both=OTHER)
    assert found.same is True and found.allowed and asked == ["both"]


@pytest.mark.parametrize("judgement", [UNKNOWN, FAILS])
def test_consent_is_no_proof(judgement: Judgement) -> None:
    assert outcome(None, stack("both", True), both=judgement)[0].same is not True


def test_what_needs_no_consent_is_judged_without_the_rest() -> None:
    found, asked = outcome(stack("rest", False), stack("both", True, False), both=OTHER, rest=SAME)
    assert found.allowed and asked == ["rest", "both"]
    found, _ = outcome(stack("rest", False), stack("both", True, False), both=OTHER, rest=UNKNOWN)
    assert found.same is False
    found, _ = outcome(None, stack("both", True, False), both=OTHER)
    assert found.same is False  # it cannot be had without the rest


def test_nothing_is_allowed_where_nobody_was_asked() -> None:
    found, asked = outcome(None, stack("both", False), both=OTHER)
    assert found.same is False and asked == ["both"]


def test_passes_are_a_power_of_two_of_calls() -> None:
    assert passes_for(0.01) == 1024 and passes_for(0.1) == 128 and passes_for(10.0) == 16
    assert passes_for(10.0, every=10) == 40

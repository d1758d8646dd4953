"""`Optimisation`: one practice of the guides, whatever it changes, and what it answers to a program.

Rewrites of the input, options of the training step, settings of the environment and advice are its kinds: each is asked about something
else (`Subject`), and all give one of four answers.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from outpace._dataclass import dataclass
from outpace.tune.data.verify import Risk

if TYPE_CHECKING:
    from outpace.tune.data.tree import Stage

Subject = TypeVar("Subject", contravariant=True)


@dataclass(frozen=True)
class Answer:
    """What an optimisation says of a program, as a sentence. word: the outcome where it goes no further than that."""

    sentence: str
    word: ClassVar[str] = ""


@dataclass(frozen=True)
class Applies(Answer):
    """It may help here; the sentence says why. risk: what it may change. stage: of a pipeline, where it acts."""

    risk: Risk
    stage: Stage | None = None


@dataclass(frozen=True)
class NeedsConsent(Answer):
    """It may help here, but changes what only the user can allow to change; the sentence says that too."""

    word = "opt-in"


@dataclass(frozen=True)
class NotApplicable(Answer):
    """It is not for this program; the sentence says why."""

    word = "not applicable"


@dataclass(frozen=True)
class Explained(Answer):
    """It is for this program and is not tried by Outpace: the sentence says what it would mean here, `reason` why it is not tried."""

    reason: str = ""
    word = "explained"


class Optimisation(Protocol[Subject]):
    """One practice. id: its name in files and options. title: its name for people. practice: what the guides recommend, in a sentence.

    order: among others of its kind. opt_in: tried only when the user asked for it, whatever its risk. holds_when: what makes it safe, as a
    clause, of one that is no matter of risk alone.
    """

    id: str
    title: str
    practice: str
    order: int = 0
    opt_in: bool = False
    holds_when: str = ""

    def applies(self, subject: Subject, /) -> Answer:
        """What it says of a program's part; trains nothing."""


def asked(optimisation: Optimisation[Subject], subject: Subject, allowed: Set[Risk]) -> Answer:
    """Its answer, where only these risks are allowed."""
    answer = optimisation.applies(subject)
    if not isinstance(answer, Applies) or (answer.risk in allowed and (not optimisation.opt_in or Risk.STATISTICAL in allowed)):
        return answer
    harmless = answer.risk in allowed and optimisation.holds_when
    what = f"It assumes that {optimisation.holds_when}" if harmless else f"It is {answer.risk.value}"
    return NeedsConsent(f"{answer.sentence.rstrip('.')}. {what}: it is tried only if you allow that.")

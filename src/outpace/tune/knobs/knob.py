"""What every knob is: a practice, when it applies, how it is turned and turned back, and how its effect is shown."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from outpace._dataclass import dataclass
from outpace.tune.data.verify import Risk

if TYPE_CHECKING:
    from outpace.tune.program.program import Program
    from outpace.tune.program.stepper import Stepper


@dataclass(frozen=True)
class Applies:
    """Why a knob may help here, as a sentence, and what it may change."""

    sentence: str
    risk: Risk


@dataclass(frozen=True)
class NotHere:
    """Why a knob is not tried here, as a sentence."""

    sentence: str


class Knob(Protocol):
    """One practice for the training step.

    practice: what the guide recommends, in a sentence. opt_in: only tried when the user asked for it. order: when it is tried.
    minor: usually a few per cent, so that others are raced before it.
    """

    id: str
    title: str
    practice: str
    opt_in: bool
    minor: bool
    order: int

    def keywords(self, program: Program) -> dict[str, str]:
        """The arguments of `compile` that say the same in the user's source, by name, as source text; empty where there are none."""

    def applies(self, program: Program) -> Applies | NotHere:
        """Whether it may help; runs nothing."""

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """The knob is turned inside the block, and turned back after it. Functions must be made and traced inside."""

    def proof(self, program: Program, stepper: Stepper) -> str | None:
        """Evidence from the traced function or a call that the knob took effect, or None."""

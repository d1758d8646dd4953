"""What every knob is: a practice, when it applies, how it is turned and turned back, and how its effect is shown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, cast

from outpace._dataclass import dataclass
from outpace.tune.data.verify import Risk

if TYPE_CHECKING:
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


@dataclass(frozen=True)
class Applies:
    """Why a knob may help here, as a sentence, and what it may change."""

    sentence: str
    risk: Risk


@dataclass(frozen=True)
class NotHere:
    """Why a knob is not tried here, as a sentence."""

    sentence: str


def serves(knob: Knob, program: Program) -> bool:
    """Whether a program has what a knob turns: a model, a PyDataset, or a loop of its own."""
    if knob.loops:
        return program.loop is not None and program.loop.framework == cast("LoopKnob", knob).framework
    return program.source.py_dataset is not None if knob.reads else program.model is not None


class Knob(Protocol):
    """One practice for the training step of a model, or of a loop of the user's (`loops`), or (`reads`) for an input that is no pipeline of
    tf.data.

    practice: what the guide recommends, in a sentence. opt_in: only tried when the user asked for it. order: when it is tried.
    minor: usually a few per cent, so that others are raced before it.
    """

    id: str
    title: str
    practice: str
    opt_in: bool
    minor: bool
    reads: bool
    loops: bool
    order: int

    def keywords(self, program: Program) -> dict[str, str]:
        """The arguments that say the same in the user's source, by name, as source text; empty where there are none: of `compile`, or, of a
        knob that `reads`, of the base class's constructor."""

    def applies(self, program: Program) -> Applies | NotHere:
        """Whether it may help; runs nothing."""

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """The knob is turned inside the block, and turned back after it. Functions must be made and traced inside."""

    def proof(self, program: Program, runner: Any) -> str | None:
        """Evidence from the traced function or a call that the knob took effect, or None. runner: the `Stepper` that runs, or where the
        knob `reads` also a `Reader`."""


class ReaderKnob(Knob, Protocol):
    """A knob that `reads`: it is written into the class of the PyDataset."""

    def decorators(self, program: Program) -> dict[str, str]:
        """The decorators that methods get, by the method's name, as source text."""


class LoopKnob(Knob, Protocol):
    """A knob of `loops`: it is written into the functions that the loop calls. framework: that the loop trains with."""

    framework: str

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write it; `edits_of`: the edits of a file by its path. Raises Unpatchable where the place is not found."""

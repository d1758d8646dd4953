# SPDX-License-Identifier: Apache-2.0
"""What every optimisation of the training step is, and how it is written into the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeGuard, cast

from outpace.tune.optimisations.optimisation import Optimisation

if TYPE_CHECKING:
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


def is_knob(each: object) -> TypeGuard[Knob]:
    """Whether an optimisation is one of the training step, and no rewrite of the input."""
    return hasattr(each, "keywords")


def serves(knob: Knob, program: Program) -> bool:
    """Whether a program has what a knob turns: a model, a PyDataset, or a loop of its own."""
    if knob.loops:
        return program.loop is not None and program.loop.framework == cast("LoopKnob", knob).framework
    return program.source.py_dataset is not None if knob.reads else program.model is not None


class Knob(Optimisation["Program"], Protocol):
    """One optimisation of the training step of a model, or of a loop of the user's (`loops`), or
    (`reads`) of an input that is no pipeline of tf.data. minor: usually a few per cent, so that
    others are raced before it.
    """

    minor: bool = False
    reads: bool = False
    loops: bool = False

    def keywords(self, program: Program) -> dict[str, str]:
        """The arguments that say the same in the user's source, by name, as source text; empty
        where there are none: of `compile`, or, of a knob that `reads`, of the base class's
        constructor.
        """
        return {}


class ReaderKnob(Knob, Protocol):
    """A knob that `reads`: it is written into the class of the PyDataset."""

    reads: bool = True

    def decorators(self, program: Program) -> dict[str, str]:
        """The decorators that methods get, by the method's name, as source text."""
        return {}


class LoopKnob(Knob, Protocol):
    """A knob of `loops`: it is written into the functions that the loop calls, or the loop itself.
    framework: that the loop trains with.
    """

    loops: bool = True
    framework: str

    def places(self, program: Program) -> Sequence[str]:
        """Where it is written."""
        return program.loop.places() if program.loop is not None else ()

    def timed(self, program: Program) -> Sequence[str]:
        """Functions and lines that take the time that it is about; empty where that is a whole
        step.
        """
        return ()

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write it; `edits_of`: the edits of a file by its path. Raises Unpatchable where the place
        is not found.
        """

"""What every optimisation of the training step is: how it is turned and turned back, and how its effect is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, cast

from outpace.tune.optimisations.optimisation import Optimisation

if TYPE_CHECKING:
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


def serves(knob: Knob, program: Program) -> bool:
    """Whether a program has what a knob turns: a model, a PyDataset, or a loop of its own."""
    if knob.loops:
        return program.loop is not None and program.loop.framework == cast("LoopKnob", knob).framework
    return program.source.py_dataset is not None if knob.reads else program.model is not None


class Knob(Optimisation["Program"], Protocol):
    """One optimisation of the training step of a model, or of a loop of the user's (`loops`), or (`reads`) of an input that is no pipeline
    of tf.data. minor: usually a few per cent, so that others are raced before it. between: it changes what lies between the calls of a step's
    function, and not these. compares: what it changes is compared by itself, and not by what the program learns."""

    minor: bool = False
    between: bool = False
    compares: bool = False
    reads: bool = False
    loops: bool = False

    def keywords(self, program: Program) -> dict[str, str]:
        """The arguments that say the same in the user's source, by name, as source text; empty where there are none: of `compile`, or, of a
        knob that `reads`, of the base class's constructor."""
        return {}

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """The knob is turned inside the block, and turned back after it. Functions must be made and traced inside."""

    def objection(self, program: Program) -> str | None:
        """What speaks against it, by a comparison of its own (`compares`); None for nothing."""
        return None

    def proof(self, program: Program, runner: Any) -> str | None:
        """Evidence from the traced function or a call that the knob took effect, or None. runner: the `Stepper` that runs, or where the
        knob `reads` also a `Reader`."""


class ReaderKnob(Knob, Protocol):
    """A knob that `reads`: it is written into the class of the PyDataset."""

    reads: bool = True

    def decorators(self, program: Program) -> dict[str, str]:
        """The decorators that methods get, by the method's name, as source text."""
        return {}


class LoopKnob(Knob, Protocol):
    """A knob of `loops`: it is written into the functions that the loop calls. framework: that the loop trains with. turns: what it turns on
    in the loop, by name."""

    loops: bool = True
    framework: str
    turns: str = ""

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Steppers that are made inside the block have it turned on."""
        assert program.loop is not None
        return switched(program.loop, turned=program.loop.turned | {self.turns})

    def places(self, program: Program) -> Sequence[str]:
        """Where it is written."""
        return program.loop.places() if program.loop is not None else ()

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write it; `edits_of`: the edits of a file by its path. Raises Unpatchable where the place is not found."""


class Turned(AbstractContextManager[None]):
    """`on` turns something and registers with the stack what turns it back; where it fails, what it registered is undone.

    Not made by `contextlib.contextmanager`: a generator that nobody holds any more is closed, which would turn the knob back.
    """

    def __init__(self, on: Callable[[ExitStack], None]) -> None:
        self._on = on
        self._back = ExitStack()

    def __enter__(self) -> None:
        with ExitStack() as stack:
            self._on(stack)
            self._back = stack.pop_all()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._back.close()


def switched(owner: Any, **values: Any) -> AbstractContextManager[None]:
    """Set attributes of a model or a loop inside the block."""

    def on(back: ExitStack) -> None:
        for name, value in values.items():
            back.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

    return Turned(on)

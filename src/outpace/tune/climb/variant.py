"""One variant of a program: its data set as rewritten so far, and the knobs that are turned."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import field
from typing import Any

from outpace._dataclass import dataclass
from outpace.tune.data.tree import Pipeline, describe
from outpace.tune.data.verify import Risk
from outpace.tune.knobs.knob import Knob
from outpace.tune.program.program import Program
from outpace.tune.program.stepper import Stepper
from outpace.tune.trial.arm import Arm, Facts, Work

CACHES = ("cache",)
_ORDER = (Risk.EXACT, Risk.REORDERED, Risk.STATISTICAL)


@dataclass(frozen=True, eq=False)
class Change:
    """One practice applied: `knob` for the step, or a rewrite of the data set. `why` names what it answers."""

    id: str
    title: str
    why: str
    risk: Risk
    knob: Knob | None = None
    proof: Callable[[Any, Pipeline], str | None] | None = None


@dataclass(frozen=True, eq=False)
class Variant:
    """What is trained with: the changes so far, in order, and the data set that the rewrites among them gave."""

    name: str
    dataset: Any
    changes: tuple[Change, ...] = ()

    @property
    def risk(self) -> Risk:
        """The largest risk of its changes."""
        return max((change.risk for change in self.changes), key=_ORDER.index, default=Risk.EXACT)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that are turned."""
        return tuple(change.knob for change in self.changes if change.knob is not None)

    def with_change(self, change: Change, dataset: Any | None = None) -> Variant:
        """This variant with one more change."""
        name = f"{self.name} + {change.title}" if self.changes else change.title
        return Variant(name, self.dataset if dataset is None else dataset, (*self.changes, change))

    @contextlib.contextmanager
    def applied(self, program: Program) -> Any:
        """All its knobs are turned inside the block."""
        with contextlib.ExitStack() as stack:
            for knob in self.knobs:
                stack.enter_context(knob.applied(program))
            yield


@dataclass(eq=False)
class Running:
    """A variant in a race."""

    program: Program
    variant: Variant
    name: str
    stepper: Stepper | None = field(default=None)

    def arm(self) -> Arm:
        """The variant as an arm of the trial engine; a step is a training step."""
        last = self.variant.changes[-1] if self.variant.changes else None
        return Arm(
            self.name,
            self._run,
            what=last.why if last else "the program as it is",
            risk=self.variant.risk.value,
            prepare=self._prepare,
            undo=self._undo,
            drain=self._drain,
            proof=self._proof if last is not None else None,
            facts=lambda: Facts("one training step", self.program.batch_size),
        )

    def _prepare(self) -> None:
        with self.variant.applied(self.program):
            self.stepper = Stepper(self.program, self.variant.dataset)
            self.stepper.compile()
        fill_caches(self.stepper, self.variant, self.program)

    def _run(self, steps: int) -> Work:
        """Whole calls: a call of several steps may be more than was asked for."""
        assert self.stepper is not None
        began = time.perf_counter()
        done = self.stepper.run(steps)
        self.stepper.finish()
        return Work(done, time.perf_counter() - began)

    def _drain(self) -> None:
        assert self.stepper is not None
        self.stepper.drain()

    def _undo(self) -> None:
        self.stepper = None

    def _proof(self) -> str | None:
        """Evidence for the last change; the others were proven in the races before."""
        assert self.stepper is not None
        change = self.variant.changes[-1]
        if change.knob is not None:
            return change.knob.proof(self.program, self.stepper)
        return change.proof(self.stepper.iterator, describe(self.variant.dataset)) if change.proof is not None else None


def fill_caches(stepper: Stepper, variant: Variant, program: Program) -> None:
    """Read one epoch, without training, where a cache has to be filled before its speed is the steady one."""
    if program.batches is None or not any(stage.op in CACHES for stage in describe(variant.dataset).stages()):
        return
    for _ in range(program.batches):
        next(stepper.iterator)

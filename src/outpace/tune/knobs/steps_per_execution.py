"""Several steps per call of the compiled function."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from outpace.tune.data.verify import Risk
from outpace.tune.knobs.knob import Applies, NotHere
from outpace.tune.knobs.switch import switched

if TYPE_CHECKING:
    from outpace.tune.program.program import Program
    from outpace.tune.program.stepper import Stepper

STEPS = 16


class StepsPerExecution:
    """Runs a loop of steps inside one call, which saves the way through Python between them."""

    id = "steps_per_execution"
    title = f"{STEPS} steps per call"
    practice = "Run several steps in one call (steps_per_execution), so that Python is not in the way of short steps."
    opt_in = False
    order = 20

    def keywords(self, program: Program) -> dict[str, str]:
        """`steps_per_execution`."""
        return {"steps_per_execution": str(STEPS)}

    def applies(self, program: Program) -> Applies | NotHere:
        """Where the user has one step per call, and at least two calls would fit into an epoch."""
        if program.model.run_eagerly:
            return NotHere("the model runs eagerly, one step at a time")
        if program.steps_per_call > 1:
            return NotHere(f"the model already runs {program.steps_per_call} steps per call")
        if program.batches is not None and program.batches < 2 * STEPS:
            return NotHere(f"an epoch has {program.batches} batches, too few for calls of {STEPS}")
        return Applies("every step goes through Python; callbacks and logs then come once per call", Risk.EXACT)

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Turned while the train function is traced."""
        return switched(program.model, steps_per_execution=STEPS)

    def proof(self, program: Program, stepper: Stepper) -> str | None:
        """The optimizer counts its steps: how many did one call make?"""
        before = int(program.model.optimizer.iterations)
        stepper.run(stepper.per_call)
        stepper.finish()
        made = int(program.model.optimizer.iterations) - before
        return f"one call makes {made} steps" if made == STEPS else None


KNOB = StepsPerExecution()

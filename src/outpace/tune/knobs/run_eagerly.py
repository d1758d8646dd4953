"""Eager execution off."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from outpace.model.units import counted
from outpace.tune.data.verify import Risk
from outpace.tune.knobs.knob import Applies, NotHere
from outpace.tune.knobs.switch import switched

if TYPE_CHECKING:
    from outpace.tune.program.program import Program
    from outpace.tune.program.stepper import Stepper


class RunEagerly:
    """Compiles a step that runs eagerly into a graph."""

    id = "run_eagerly"
    title = "graph instead of eager execution"
    practice = "Let the step be compiled into a graph (run_eagerly=False); eager execution is for debugging."
    opt_in = False
    minor = False
    reads = False
    loops = False
    order = 5

    def keywords(self, program: Program) -> dict[str, str]:
        """`run_eagerly=False`."""
        return {"run_eagerly": "False"}

    def applies(self, program: Program) -> Applies | NotHere:
        """Where the model was compiled with run_eagerly=True."""
        if not program.model.run_eagerly:
            return NotHere("the model does not run eagerly")
        return Applies(
            "the step runs eagerly; what Python does in it besides, runs once, when the graph is built", Risk.REORDERED
        )

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Turned while the train function is made."""
        return switched(program.model, run_eagerly=False)

    def proof(self, program: Program, stepper: Stepper) -> str | None:
        """Whether the train function is a traced one."""
        count = stepper.traced.experimental_get_tracing_count() if stepper.traced is not None else 0
        return f"the step was traced {counted(count, 'time')} into a graph" if count else None


KNOB = RunEagerly()

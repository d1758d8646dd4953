"""XLA on or off for the training step."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from outpace.tune.data.verify import Risk
from outpace.tune.knobs.knob import Applies, NotHere
from outpace.tune.knobs.switch import switched

if TYPE_CHECKING:
    from outpace.tune.program.program import Program
    from outpace.tune.program.stepper import Stepper


class JitCompile:
    """Compiles the step with XLA, or runs it without where Keras has chosen XLA."""

    id = "jit_compile"
    title = "XLA"
    practice = "Compile the model with XLA (jit_compile=True), which fuses operations; try it off where it is on."
    opt_in = False
    minor = False
    reads = False
    loops = False
    order = 10

    def keywords(self, program: Program) -> dict[str, str]:
        """`jit_compile=True`, or False where it is on."""
        return {"jit_compile": str(self.wanted(program))}

    def wanted(self, program: Program) -> bool:
        """The value to try: the other one."""
        return not bool(program.model.jit_compile)

    def applies(self, program: Program) -> Applies | NotHere:
        """Everywhere but in eager execution and for layers that say that they do not support it."""
        model = program.model
        if model.run_eagerly:
            return NotHere("the model runs eagerly, and XLA compiles graphs")
        if not self.wanted(program):
            return Applies("Keras has chosen XLA, which is not always faster", Risk.REORDERED)
        unsupported = [layer.name for layer in model._flatten_layers() if not getattr(layer, "supports_jit", True)]
        if unsupported:
            return NotHere(f"the layer {unsupported[0]} does not support XLA")
        return Applies("the step runs without XLA, which may fuse its operations", Risk.REORDERED)

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Turned while the train function is made."""
        return switched(program.model, jit_compile=self.wanted(program))

    def proof(self, program: Program, stepper: Stepper) -> str | None:
        """Whether functions in the traced graph must be compiled."""
        graph = stepper.graph()
        if graph is None:
            return None
        compiled = sum(_must_compile(function) for function in graph.library.function)
        if self.wanted(program):
            return f"{compiled} functions in the traced step are compiled by XLA" if compiled else None
        return None if compiled else "no function in the traced step is compiled by XLA"


def _must_compile(function: Any) -> bool:
    return bool(function.attr["_XlaMustCompile"].b) if "_XlaMustCompile" in function.attr else False


KNOB = JitCompile()

"""XLA for the functions that a loop of the user's own calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from outpace.tune.data.verify import Risk
from outpace.tune.optimisations.optimisation import Applies
from outpace.tune.optimisations.optimisation import NotApplicable as NotHere

if TYPE_CHECKING:
    from outpace.tune.loop.stepper import LoopStepper
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


class LoopXla:
    """Compiles what the loop calls with XLA."""

    id = "loop_xla"
    title = "XLA"
    practice = "Compile the functions of the step with XLA, tf.function(jit_compile=True), which fuses operations."
    opt_in = False
    minor = False
    reads = False
    loops = True
    framework = "tensorflow"
    order = 10

    def keywords(self, program: Program) -> dict[str, str]:
        """`jit_compile=True`, of `tf.function`."""
        return {"jit_compile": "True"}

    def applies(self, program: Program) -> Applies | NotHere:
        """Where the loop calls a `tf.function` that XLA does not compile."""
        loop = program.loop
        if loop is None or not loop.functions:
            return NotHere("the step calls no tf.function, and XLA compiles graphs")
        if all(getattr(function, "_jit_compile", None) for function in loop.functions):
            return NotHere("the functions of the step are compiled by XLA already")
        return Applies("the step runs without XLA, which may fuse its operations", Risk.REORDERED)

    @contextlib.contextmanager
    def applied(self, program: Program) -> Iterator[None]:
        """Steppers that are made inside the block run compiled functions."""
        assert program.loop is not None
        before, program.loop.compiled = program.loop.compiled, True
        try:
            yield
        finally:
            program.loop.compiled = before

    def proof(self, program: Program, stepper: LoopStepper) -> str | None:
        """How many calls ran compiled."""
        calls = stepper.active.calls
        return f"{calls} calls of functions that XLA compiled" if calls else None

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the keyword. Raises Unpatchable where a function is not found."""
        from outpace.tune.loop.loop import in_keras
        from outpace.tune.patch.function_edit import edit_function
        from outpace.tune.patch.keras_edit import write_compile
        from outpace.tune.patch.outline_edit import write_outline

        assert program.loop is not None
        step = program.loop.eager_step
        for model in program.loop.models():
            write_compile(model, self.keywords(program), edits_of)
        for code in program.loop.codes():
            if in_keras(code):
                continue
            if step is not None and step.outline is not None and code is step.function.__code__:
                write_outline(step.outline, edits_of, self.keywords(program))
            else:
                edit_function(code, self.keywords(program), edits_of)


KNOB = LoopXla()

"""Optimisations of a TensorFlow loop of the user's own: its step as a graph, compiled by XLA, its values read later."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from outpace.capture.frames import in_keras
from outpace.tune.data.verify import Risk
from outpace.tune.loop.later import AT_ONCE
from outpace.tune.optimisations.knob import LoopKnob, switched
from outpace.tune.optimisations.optimisation import Answer, Applies, NotApplicable

if TYPE_CHECKING:
    from outpace.tune.loop.stepper import LoopStepper
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


class LoopGraph(LoopKnob):
    """Puts the function of an eager step into a `tf.function`, or `jax.jit`."""

    order = 5

    def __init__(self, id: str, maker: str, framework: str) -> None:
        self.id, self.title, self.maker, self.framework = id, maker, maker, framework
        self.practice = f"Decorate the step's function with @{maker}: it then runs as a whole, not op by op."

    @property
    def _jax(self) -> bool:
        return self.framework == "jax"

    def applies(self, program: Program, /) -> Answer:
        """Where a function of the user's makes the step eagerly, and nothing in it would be frozen in a graph."""
        from outpace.tune.loop.frozen import frozen
        from outpace.tune.loop.stepper import Calls

        loop = program.loop
        if loop is None or not loop.eager:
            return NotApplicable("the step is compiled already" if self._jax else "the step is a graph already")
        step = loop.eager_step
        if step is None:
            return NotApplicable(
                f"the step runs eagerly, but stands in the loop itself: put it into a function, and decorate that with @{self.maker}"
            )
        why = frozen(
            step.function, [call.args for call in loop.calls.made] if isinstance(loop.calls, Calls) and not self._jax else ()
        )
        if why is not None:
            return NotApplicable(f"the step, {step.place}, runs eagerly, and would change its meaning in a graph: it {why}")
        return Applies(f"the step, {step.place}, runs eagerly, one operation after the other", Risk.REORDERED)

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Steppers that are made inside the block run a graph."""
        return switched(program.loop, as_graph=True)

    def proof(self, program: Program, stepper: LoopStepper) -> str | None:
        """How often the graph ran, and how often it was built."""
        graph = program.loop.graph if program.loop is not None else None
        if graph is None or not stepper.active.calls:
            return None
        traced = graph._cache_size() if self._jax else graph.experimental_get_tracing_count()
        return f"{stepper.active.calls} steps ran as a graph, which was traced {traced} times"

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the decorator. Raises Unpatchable where the function is not found."""
        from outpace.tune.patch.step_edit import decorate, write_outline

        assert program.loop is not None and program.loop.eager_step is not None
        step, static = program.loop.eager_step, program.loop.static
        options = {"static_argnames": repr(static)} if static else None
        if step.outline is not None:
            write_outline(step.outline, edits_of, options, self.maker)
        else:
            decorate(step.function.__code__, edits_of, self.maker, options)


class LoopXla(LoopKnob):
    """Compiles what the loop calls with XLA."""

    id = "loop_xla"
    title = "XLA"
    practice = "Compile the functions of the step with XLA, tf.function(jit_compile=True), which fuses operations."
    framework = "tensorflow"
    order = 10

    def keywords(self, program: Program) -> dict[str, str]:
        """`jit_compile=True`, of `tf.function`."""
        return {"jit_compile": "True"}

    def applies(self, program: Program, /) -> Answer:
        """Where the loop calls a `tf.function` that XLA does not compile."""
        loop = program.loop
        if loop is None or not loop.compilable:
            return NotApplicable("the step calls no tf.function, and XLA compiles graphs")
        if all(getattr(function, "_jit_compile", None) for function in loop.compilable):
            return NotApplicable("the functions of the step are compiled by XLA already")
        return Applies("the step runs without XLA, which may fuse its operations", Risk.REORDERED)

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Steppers that are made inside the block run compiled functions."""
        return switched(program.loop, compiled=True)

    def proof(self, program: Program, stepper: LoopStepper) -> str | None:
        """How many calls ran compiled."""
        calls = stepper.active.calls
        return f"{calls} calls of functions that XLA compiled" if calls else None

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the keyword. Raises Unpatchable where a function is not found."""
        from outpace.tune.patch.step_edit import edit_function, write_compile, write_outline

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


class LoopReads(LoopKnob):
    """Keeps tensors, and prints or appends their values later."""

    id = turns = "loop_reads"
    title = "values read later"
    practice = "Do not read values (float(loss), .numpy(), print) in every step, which waits for it: keep the tensors, and read many at once."
    minor = True
    framework = "tensorflow"
    order = 25

    def applies(self, program: Program, /) -> Answer:
        """Where each step prints or appends values of tensors that nothing in the loop depends on."""
        syncs = program.loop.syncs if program.loop is not None else None
        if syncs is None or not syncs.found:
            return NotApplicable("no statement beside the step reads the value of a tensor in every step")
        file = os.path.basename(syncs.file)
        places = ", ".join(f"{file}:{each.line} {each.said}" for each in syncs.found)
        stay = "; ".join(f"line {line} stays: {why}" for line, why in syncs.kept)
        if not syncs.movable:
            return NotApplicable(f"every step waits to read values ({places}), which cannot come later: {stay}")
        return Applies(
            f"every step waits to read values ({places}); they would come {AT_ONCE} steps at a time{f'; {stay}' if stay else ''}",
            Risk.EXACT,
        )

    def proof(self, program: Program, runner: object) -> str | None:
        """How often a statement came later."""
        steps = program.loop.kept.steps if program.loop is not None else 0
        return f"{steps} times a statement that reads values came later" if steps else None

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write a function that reads what was kept. Raises Unpatchable where a statement is not found."""
        from outpace.tune.patch.step_edit import write_reads

        assert program.loop is not None and program.loop.syncs is not None
        write_reads(program.loop.syncs, edits_of)


OPTIMISATIONS = (LoopGraph("loop_graph", "tf.function", "tensorflow"), LoopXla(), LoopReads())

# SPDX-License-Identifier: Apache-2.0
"""Optimisations of a TensorFlow loop of the user's own: its step as a graph, compiled by XLA, its
models as graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from outpace.capture.frames import is_keras_code
from outpace.frameworks.tensorflow import JIT_COMPILE
from outpace.tune.loop.models import CALL, PREDICT
from outpace.tune.optimisations.advice import listed
from outpace.tune.optimisations.compiled import FEWEST
from outpace.tune.optimisations.knob import LoopKnob
from outpace.tune.optimisations.optimisation import Answer, Applies, NotApplicable, Reach
from outpace.tune.risk import Risk

if TYPE_CHECKING:
    from outpace.tune.loop.models import Called, Models
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


SHORT = 0.005  # seconds of a step: what a call costs is a small part of longer ones


class LoopGraph(LoopKnob):
    """Puts the function of an eager step into a `tf.function`, or `jax.jit`."""

    reach = Reach(of_step=0.95)
    order = 5

    def __init__(self, id: str, maker: str, framework: str) -> None:
        self.id, self.title, self.maker, self.framework = id, maker, maker, framework
        self.practice = f"Decorate the step's function with @{maker}: it then runs as a whole, not op by op."

    @property
    def _jax(self) -> bool:
        return self.framework == "jax"

    def applies(self, program: Program, /) -> Answer:
        """Where a function of the user's makes the step eagerly, and does nothing that a graph
        would not do.
        """
        from outpace.tune.loop.effects import effect_of

        loop = program.loop
        if loop is None or not loop.eager:
            return NotApplicable("the step is compiled already" if self._jax else "the step is a graph already")
        step = loop.eager_step
        if step is None:
            return NotApplicable(
                f"the step runs eagerly, but stands in the loop itself: put it into a function, and decorate that with @{self.maker}"
            )
        why = effect_of(step.traced, [] if self._jax else [call.args for call in loop.calls])
        if why is not None:
            return NotApplicable(f"the step, {step.place}, runs eagerly, and would change its meaning in a graph: it {why}")
        return Applies(f"the step, {step.place}, runs eagerly, one operation after the other", Risk.REORDERED)

    def places(self, program: Program) -> Sequence[str]:
        """Where the step stands."""
        step = program.loop.eager_step if program.loop is not None else None
        return [step.place] if step is not None else []

    def timed(self, program: Program) -> Sequence[str]:
        """The step's function, where it is one."""
        step = program.loop.eager_step if program.loop is not None else None
        return [step.place] if step is not None and step.outline is None else []

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the decorator. Raises Unpatchable where the function is not found."""
        from outpace.tune.patch.step_edit import decorate, write_outline, write_peeled

        assert program.loop is not None and program.loop.eager_step is not None
        step, static = program.loop.eager_step, program.loop.static
        options = {"static_argnames": repr(static)} if static else None
        if step.outline is not None:
            write_outline(step.outline, edits_of, options, self.maker)
        elif step.peeled is not None:
            write_peeled(step.function.__code__, step.peeled, edits_of, options, self.maker)
        else:
            decorate(step.function.__code__, edits_of, self.maker, options)


class LoopXla(LoopKnob):
    """Compiles what the loop calls with XLA."""

    id = "loop_xla"
    title = "XLA"
    reach = Reach(of_step=0.2)
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
        if all(JIT_COMPILE.of(function) for function in loop.compilable):
            return NotApplicable("the functions of the step are compiled by XLA already")
        return Applies("the step runs without XLA, which may fuse its operations", Risk.REORDERED)

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the keyword. Raises Unpatchable where a function is not found."""
        from outpace.tune.patch.step_edit import edit_function, write_compile

        assert program.loop is not None
        for model in program.loop.models():
            write_compile(model, self.keywords(program), edits_of)
        for code in program.loop.codes():
            if not is_keras_code(code):
                edit_function(code, self.keywords(program), edits_of)


class LoopModels(LoopKnob):
    """Lets Keras models that the loop calls eagerly, or asks to predict a few examples, run as
    graphs.
    """

    id = "loop_models"
    title = "models as graphs"
    reach = Reach(of_step=0.7)
    practice = (
        "Let the models that the loop calls eagerly, or asks to predict a few examples, run as graphs: model.call = tf.function(model.call) "
        "before the loop, and tf.function(model)(x).numpy() for model.predict(x)."
    )
    framework = "tensorflow"
    order = 30

    def applies(self, program: Program, /) -> Answer:
        """Where each step calls models eagerly, which do nothing that a graph would not."""
        models = program.loop.eager_models if program.loop is not None else None
        found = models.often() if models is not None else ()
        if models is None or not found:
            return NotApplicable("no step calls a Keras model eagerly")
        ready = self._ready(program, found)
        if not ready:
            return NotApplicable("the step runs eagerly: that it be compiled comes first")
        fitting = [each for each in ready if models.unfit(each) is None]
        if not fitting:
            return NotApplicable(str(models.unfit(ready[0])))
        called = listed([f"{each.name} ({each.place})" for each in fitting if each.method == CALL])
        asked = listed([f"{each.name}.predict ({each.place})" for each in fitting if each.method == PREDICT])
        said = (
            [f"every step calls {called} eagerly, one operation after the other; as a graph it is one call"] if called else []
        )
        if asked:
            said.append(f"every step calls {asked}, which makes a data set and a loop of a few examples; a graph is one call")
        return Applies("; ".join(said), Risk.REORDERED)

    def places(self, program: Program) -> Sequence[str]:
        """The lines that call the models."""
        return [f"{each.place} {each.name}" for each in self._fitting(program)[1]]

    def timed(self, program: Program) -> Sequence[str]:
        """These lines."""
        return self.places(program)

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write an assignment for each, before the loop. Raises Unpatchable where that is not
        found.
        """
        from outpace.tune.patch.step_edit import write_models

        models, fitting = self._fitting(program)
        write_models(models.file, models.line, [(each.name, each.method) for each in fitting], edits_of)

    @staticmethod
    def _ready(program: Program, found: Sequence[Called]) -> list[Called]:
        """Those that are no part of a step which shall become a graph first: a graph predicts
        nothing.
        """
        first = isinstance(OPTIMISATIONS[0].applies(program), Applies)
        return [each for each in found if each.method == PREDICT or not first]

    def _fitting(self, program: Program) -> tuple[Models, list[Called]]:
        assert program.loop is not None and program.loop.eager_models is not None
        models = program.loop.eager_models
        ready = self._ready(program, models.often())
        return models, [each for each in ready if models.unfit(each) is None]


class LoopSeveral(LoopKnob):
    """Runs steps of a loop in one call, over their batches, which are put together."""

    title = "several steps per call"
    reach = Reach(of_call=0.8)
    order = 20

    def __init__(self, id: str, how: str, framework: str) -> None:
        self.id, self.framework = id, framework
        self.practice = (
            f"Run several steps in one call ({how} over their batches), so that Python is not in the way of short steps."
        )

    def at_once(self, program: Program, /) -> int:
        """Of one call."""
        return program.loop.per_call if program.loop is not None else 1

    def applies(self, program: Program, /) -> Answer:
        """Where steps are short, and the loop comes apart and does nothing between them that could
        not wait.
        """
        loop = program.loop
        if loop is None or loop.taken is None:
            return untaken(program)
        if loop.eager:
            return NotApplicable("the step runs eagerly: that it be compiled comes first")
        if loop.taken.body.several:
            return NotApplicable(loop.taken.body.several)
        if program.step_seconds is not None and program.step_seconds > SHORT:
            return NotApplicable(f"a step takes {1000 * program.step_seconds:.1f} ms, of which a call is a small part")
        if loop.per_call < FEWEST:
            return NotApplicable(f"an epoch has {loop.per_call} steps")
        return Applies(
            f"every step is a call from Python; with {loop.per_call} steps per call, what follows a step comes once per call",
            Risk.REORDERED,
        )

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the loop anew. Raises Unpatchable where it is not found."""
        from outpace.tune.patch.loop_edit import write_loop

        assert program.loop is not None
        write_loop(program.loop, edits_of)


def untaken(program: Program) -> NotApplicable:
    """Why the loop is left as it is."""
    return NotApplicable(program.loop.untaken if program.loop is not None else "there is no loop")


OPTIMISATIONS = (
    LoopGraph("loop_graph", "tf.function", "tensorflow"),
    LoopXla(),
    LoopSeveral("loop_calls", "tf.map_fn in a tf.function", "tensorflow"),
    LoopModels(),
)

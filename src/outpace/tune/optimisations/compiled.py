# SPDX-License-Identifier: Apache-2.0
"""How the training step of a Keras model is compiled: a graph or eager execution, XLA, and how many
steps one call makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from outpace.frameworks.keras import layers_of
from outpace.tune.optimisations.knob import Knob
from outpace.tune.optimisations.optimisation import Answer, Applies, NotApplicable, Reach
from outpace.tune.risk import Risk

if TYPE_CHECKING:
    from outpace.tune.program.program import Program


class RunEagerly(Knob):
    """Compiles a step that runs eagerly into a graph."""

    id = "run_eagerly"
    title = "graph instead of eager execution"
    reach = Reach(of_step=0.9)
    practice = "Let the step be compiled into a graph (run_eagerly=False); eager execution is for debugging."
    order = 5

    def keywords(self, program: Program) -> dict[str, str]:
        """`run_eagerly=False`."""
        return {"run_eagerly": "False"}

    def applies(self, program: Program, /) -> Answer:
        """Where the model was compiled with run_eagerly=True."""
        if not program.model.run_eagerly:
            return NotApplicable("the model does not run eagerly")
        return _applies(
            program, "the step runs eagerly; what Python does in it besides, runs once, when the graph is built", Risk.REORDERED
        )


class JitCompile(Knob):
    """Compiles the step with XLA, or runs it without where Keras has chosen XLA."""

    id = "jit_compile"
    title = "XLA"
    reach = Reach(of_step=0.2)
    practice = "Compile the model with XLA (jit_compile=True), which fuses operations; try it off where it is on."
    order = 10

    def keywords(self, program: Program) -> dict[str, str]:
        """`jit_compile=True`, or False where it is on."""
        return {"jit_compile": str(self.wanted(program))}

    def wanted(self, program: Program) -> bool:
        """The value to try: the other one."""
        return not bool(program.model.jit_compile)

    def applies(self, program: Program, /) -> Answer:
        """Everywhere but in eager execution and for layers that say that they do not support it."""
        model = program.model
        if model.run_eagerly:
            return NotApplicable("the model runs eagerly, and XLA compiles graphs")
        if not self.wanted(program):
            return _applies(program, "Keras has chosen XLA, which is not always faster", Risk.REORDERED)
        unsupported = [layer.name for layer in (model, *layers_of(model)) if not getattr(layer, "supports_jit", True)]
        if unsupported:
            return NotApplicable(f"the layer {unsupported[0]} does not support XLA")
        return _applies(program, "the step runs without XLA, which may fuse its operations", Risk.REORDERED)


def _applies(program: Program, sentence: str, risk: Risk) -> Applies:
    """It may help, at a risk that is larger where the data end without notice: a graph that asks
    for the next batch itself then counts a step that has none, while it waits (Keras 3.15: the
    optimizer's `iterations` and random layers' seeds are 48 after 3 epochs of 15 batches); XLA,
    calls of several steps and eager steps do not.
    """
    if program.batches is not None or program.arguments.get("steps_per_epoch"):
        return Applies(sentence, risk)
    counts = (
        "how many batches an epoch has is not known, and Keras counts a step without data at its end in one of the two only"
    )
    return Applies(f"{sentence}; {counts}, by the optimizer and for random layers", Risk.STATISTICAL)


FEWEST, USUAL, MOST = 4, 16, 128
CALL_SECONDS = 0.1  # of a call: the progress bar, which has its say after each, still seems to move
_BATCH_METHODS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


class StepsPerExecution(Knob):
    """Runs a loop of steps inside one call, which saves the way through Python between them."""

    id = "steps_per_execution"
    title = "several steps per call"
    reach = Reach(of_call=0.8)
    practice = "Run several steps in one call (steps_per_execution), so that Python is not in the way of short steps."
    order = 20

    def keywords(self, program: Program) -> dict[str, str]:
        """`steps_per_execution`."""
        return {"steps_per_execution": str(self.at_once(program))}

    def at_once(self, program: Program, /) -> int:
        """Of one call."""
        return steps_for(program) or 1

    def applies(self, program: Program, /) -> Answer:
        """Where the user has one step per call, at least two calls fit into an epoch, and no
        callback of the user's acts on each batch.
        """
        if program.model.run_eagerly:
            return NotApplicable("the model runs eagerly, one step at a time")
        if program.steps_per_call > 1:
            return NotApplicable(f"the model already runs {program.steps_per_call} steps per call")
        steps = steps_for(program)
        if steps is None:
            return NotApplicable(_misfit(program))
        callbacks = list(_per_batch(program.arguments.get("callbacks")))
        own = [name for name, keras_own in callbacks if not keras_own]
        if own:
            return NotApplicable(f"the callback {own[0]} acts on each batch, and would be called once for {steps} of them")
        later = f" ({', '.join(name for name, _ in callbacks)} too)" if callbacks else ""
        return _applies(
            program,
            f"every step goes through Python; with {steps} steps per call, callbacks and logs{later} come once per call",
            Risk.EXACT,
        )


def steps_for(program: Program) -> int | None:
    """How many steps a call may make; None where fewer than 4 are possible.

    16, and of short steps as many as a call of 0.1 s holds, at most 128: what a call costs in
    Python weighs the more the shorter they are. An epoch holds at least two calls. Numbers of steps
    that were given to `fit` must be multiples: Keras makes whole calls, and would make more steps
    than were asked for. The end of the data ends a call early.
    """
    epoch = program.arguments.get("steps_per_epoch")
    given = [int(steps) for steps in (epoch, program.arguments.get("validation_steps")) if steps]
    length = epoch or program.batches
    wanted = int(CALL_SECONDS / program.step_seconds) // USUAL * USUAL if program.step_seconds else USUAL
    most = max(USUAL, min(MOST, wanted))
    most = most if length is None else min(most, int(length) // 2)
    return next((steps for steps in range(most, FEWEST - 1, -1) if not any(number % steps for number in given)), None)


def _misfit(program: Program) -> str:
    """Why no number of steps fits."""
    length = program.arguments.get("steps_per_epoch") or program.batches
    if length is not None and int(length) < 2 * FEWEST:
        return f"an epoch has {length} batches, too few for two calls of {FEWEST}"
    names = [name for name in ("steps_per_epoch", "validation_steps") if program.arguments.get(name)]
    numbers = " and ".join(f"{name}={program.arguments[name]}" for name in names)
    return f"no number of steps from {FEWEST} to {MOST} divides {numbers}, and Keras makes whole calls, so more steps than asked for"


def callbacks_of_batches(program: Program) -> list[str]:
    """Names of the user's own callbacks of a fit that act on each batch."""
    given = program.arguments.get("callbacks") if program.model is not None else None
    return [name for name, keras_own in _per_batch(given) if not keras_own] if given else []


def _per_batch(callbacks: Any) -> Iterator[tuple[str, bool]]:
    """Names of the callbacks that do something for each batch, with whether they are Keras' own."""
    import keras

    base = keras.callbacks.Callback
    found = getattr(callbacks, "callbacks", callbacks) or ()
    for callback in found if isinstance(found, (list, tuple)) else (found,):
        methods = [name for name in _BATCH_METHODS if _differs(callback, base, name)]
        keras_own = type(callback).__module__.startswith("keras.") and not any(name in vars(callback) for name in methods)
        if methods and not (keras_own and _by_epoch(callback)):
            yield type(callback).__name__, keras_own


def _differs(callback: Any, base: type, name: str) -> bool:
    return name in vars(callback) or getattr(type(callback), name, None) is not getattr(base, name)


def _by_epoch(callback: Any) -> bool:
    """Whether one of Keras' own callbacks, which all override the methods of batches, has nothing
    to do for a batch.
    """
    if type(callback).__name__ in ("History", "ProgbarLogger", "CallbackList"):
        return True
    return getattr(callback, "save_freq", None) == "epoch" or getattr(callback, "update_freq", None) == "epoch"


OPTIMISATIONS = (RunEagerly(), JitCompile(), StepsPerExecution())

"""Several steps per call of the compiled function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from outpace.tune.data.verify import Risk
from outpace.tune.knobs.knob import Applies, NotHere
from outpace.tune.knobs.switch import switched

if TYPE_CHECKING:
    from outpace.tune.program.program import Program
    from outpace.tune.program.stepper import Stepper

FEWEST, USUAL, MOST = 4, 16, 128
CALL_SECONDS = 0.1  # of a call: the progress bar, which has its say after each, still seems to move
_BATCH_METHODS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


class StepsPerExecution:
    """Runs a loop of steps inside one call, which saves the way through Python between them."""

    id = "steps_per_execution"
    title = "several steps per call"
    practice = "Run several steps in one call (steps_per_execution), so that Python is not in the way of short steps."
    opt_in = False
    minor = False
    reads = False
    loops = False
    order = 20

    def keywords(self, program: Program) -> dict[str, str]:
        """`steps_per_execution`."""
        return {"steps_per_execution": str(steps_for(program) or 1)}

    def applies(self, program: Program) -> Applies | NotHere:
        """Where the user has one step per call, at least two calls fit into an epoch, and no callback of the user's acts on each batch."""
        if program.model.run_eagerly:
            return NotHere("the model runs eagerly, one step at a time")
        if program.steps_per_call > 1:
            return NotHere(f"the model already runs {program.steps_per_call} steps per call")
        steps = steps_for(program)
        if steps is None:
            return NotHere(_misfit(program))
        callbacks = list(_per_batch(program.arguments.get("callbacks")))
        own = [name for name, keras_own in callbacks if not keras_own]
        if own:
            return NotHere(f"the callback {own[0]} acts on each batch, and would be called once for {steps} of them")
        later = f" ({', '.join(name for name, _ in callbacks)} too)" if callbacks else ""
        return Applies(
            f"every step goes through Python; with {steps} steps per call, callbacks and logs{later} come once per call",
            Risk.EXACT,
        )

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Turned while the train function is traced."""
        return switched(program.model, steps_per_execution=steps_for(program) or 1)

    def proof(self, program: Program, stepper: Stepper) -> str | None:
        """The optimizer counts its steps: how many did one call make?"""
        before = int(program.model.optimizer.iterations)
        stepper.run(stepper.per_call)
        stepper.finish()
        made = int(program.model.optimizer.iterations) - before
        return f"one call makes {made} steps" if made == steps_for(program) and made > 1 else None


def steps_for(program: Program) -> int | None:
    """How many steps a call may make; None where fewer than 4 are possible.

    16, and of short steps as many as a call of 0.1 s holds, at most 128: what a call costs in Python weighs the more the shorter they are.
    An epoch holds at least two calls. Numbers of steps that were given to `fit` must be multiples: Keras makes whole calls, and would make
    more steps than were asked for. The end of the data ends a call early.
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
    """Whether one of Keras' own callbacks, which all override the methods of batches, has nothing to do for a batch."""
    if type(callback).__name__ in ("History", "ProgbarLogger", "CallbackList"):
        return True
    return getattr(callback, "save_freq", None) == "epoch" or getattr(callback, "update_freq", None) == "epoch"


KNOB = StepsPerExecution()

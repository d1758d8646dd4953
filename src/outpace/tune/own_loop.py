"""`outpace.tune_loop(step, data)`: a training loop of one's own, tuned in a notebook or a program that goes on afterwards."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.errors import OutpaceError, UsageError
from outpace.tune.data.isolated import isolated
from outpace.tune.loop.found import Found
from outpace.tune.loop.jax_calls import JaxCalls
from outpace.tune.loop.loop import Loop
from outpace.tune.loop.step import Step
from outpace.tune.loop.stepper import Left
from outpace.tune.pages.progress import watching
from outpace.tune.program.outside import Outside
from outpace.tune.program.program import Program
from outpace.tune.program.python_state import PythonState
from outpace.tune.program.state import Snapshot, Variables
from outpace.tune.reason import reason_of
from outpace.tune.session import BUDGET, Tuned, tune_program
from outpace.tune.trial.engine import Watch
from outpace.tune.trial.record import Experiment, Phase, Verdict

_NAME = "step"
_WAIT = 30.0  # seconds, for the tuning to see that the loop has ended


@dataclass(frozen=True, eq=False)
class TunedLoop(Tuned):
    """What came of a tuning of a loop. Printing it, or showing it in a notebook, gives the tables; `recipe` how to make the changes by hand.
    data: what was given to it."""

    data: Any = None

    def apply(self) -> tuple[Callable[..., Any], Any]:
        """The step and the data to train with: those that were given where nothing faster was proven."""
        loop = self.program.loop
        assert loop is not None and loop.eager_step is not None
        with contextlib.ExitStack() as stack:
            for knob in self.best.knobs:
                stack.enter_context(knob.applied(self.program))
            step = loop.as_prepared(loop.eager_step.function)
        return step, self.dataset if self.program.own_pipeline else self.data

    def __repr__(self) -> str:
        return str(self)


def tune_loop(
    step: Callable[..., Any],
    data: Any,
    *,
    state: Any = None,
    budget: float = BUDGET,
    allow_statistical: bool = False,
    progress: bool = True,
) -> TunedLoop:
    """Find what makes `for batch in data: step(batch)` faster, and prove it; with `state`, what makes `state = step(state, batch)`.

    `step` is a function of yours, eager or compiled (`tf.function`, `jax.jit`); `data` a `tf.data.Dataset`, or anything that can be read again
    and again: a list of batches, a loader. Nothing is trained: variables of TensorFlow, random numbers, and what the step and the data reach
    in Python are put back, and `state` is never changed. `budget` is in seconds. `step, data = result.apply()` is what to go on with.
    Raises UsageError where there is nothing that can be tuned or put back, with the reason.
    """
    driven = _Driven(step, data, state)
    outside = Outside.of(data) if driven.own else None
    python = PythonState.of([step] if driven.own else [step, data])
    for stuck in python.stuck:
        raise UsageError(f"Trials would use up what the training is to read: {stuck}.")
    chance = Snapshot.of(None)
    with _variables_of_first_step(driven) as kept:
        try:
            with watching(progress) as watch:
                tuned = driven.tuned(budget, allow_statistical, watch)
        finally:
            driven.loop.remove()
            kept.restore()
            if outside is not None:
                outside.restore()
            python.restore()
            chance.restore()
    return TunedLoop(**{name: getattr(tuned, name) for name in Tuned.__dataclass_fields__}, data=data)


class _Driven:
    """The loop that makes the steps, in the thread that asked for them. own: whether it reads a pipeline of tf.data."""

    def __init__(self, step: Callable[..., Any], data: Any, state: Any) -> None:
        tf, jax = sys.modules.get("tensorflow"), sys.modules.get("jax")
        if tf is None and jax is None:
            raise UsageError("A step of TensorFlow or JAX can be tuned, and neither is imported.")
        if hasattr(type(data), "__next__"):
            raise UsageError(
                f"The data can be read only once ({type(data).__name__}): give what makes it, a data set or a list of batches."
            )
        self.own = tf is not None and isinstance(data, tf.data.Dataset)
        self.data, self.state, self._jax = data, state, jax
        self.holder: dict[str, Any] = {_NAME: step}
        calls = None
        if jax is not None and (hasattr(step, "lower") or _arrays(jax, state)):
            calls = JaxCalls(jax)
            calls.original["jit"] = jax.jit
        made = Step(getattr(step, "__name__", _NAME), step, None, self.holder)  # type: ignore[arg-type]  # or what was compiled of one
        self.loop = Loop(Found(data if self.own else None, None, calls), made)
        self.loop.eager = not (hasattr(step, "lower") or hasattr(step, "python_function"))

    def first(self) -> None:
        """Make one step, which traces, and may make variables. Raises UsageError where it fails, or gives the state away."""
        state = self._fresh()
        batch = next(iter(isolated(self.data) if self.own else self.data), None)
        if batch is None:
            raise UsageError("The data is empty, so there is no step to measure.")
        try:
            self.holder[_NAME](*self._arguments(state, batch))
        except Exception as error:
            raise UsageError(f"The step fails on the first batch: {reason_of(error)}.") from error
        if self._jax is not None and any(leaf.is_deleted() for leaf in _arrays(self._jax, state)):
            raise UsageError(
                "The step gives its state away (donate_argnums), so it cannot be made again: tune it without that."
            )

    def tuned(self, budget: float, allow_statistical: bool, watch: Watch) -> Tuned:
        """Tune it in another thread, while this one makes the steps."""
        found: list[Tuned | BaseException] = []
        clock = self.loop.clock

        def tune() -> None:
            try:
                self.loop.observe()
                program = Program.of_loop(self.loop)
                found.append(
                    tune_program(program, budget=budget, allow_statistical=allow_statistical, watch=_Ending(watch, self.loop))
                )
            except BaseException as error:
                found.append(error)
            clock.leave()

        self.loop.install()
        thread = threading.Thread(target=tune, name="outpace-tuning", daemon=True)
        thread.start()
        try:
            self._run()
        except Left:
            thread.join()
        except BaseException as error:
            clock.end(f"The step fails: {reason_of(error)}")
            thread.join(_WAIT)
            if isinstance(error, OutpaceError) or not isinstance(error, Exception):
                raise
        if isinstance(found[0], BaseException):
            raise found[0]
        return found[0]

    def _run(self) -> NoReturn:
        """The loop, again and again."""
        data = isolated(self.data) if self.own else self.data
        while True:
            state = self._fresh()
            for batch in data:
                result = self.holder[_NAME](*self._arguments(state, batch))
                state = result if self.state is not None else None
            self.loop.clock.aside()

    def _arguments(self, state: Any, batch: Any) -> tuple[Any, ...]:
        if self.own and self.loop.jax is not None:
            batch = sys.modules["tensorflow"].nest.map_structure(lambda part: part.numpy(), batch)
        return (batch,) if self.state is None else (state, batch)

    def _fresh(self) -> Any:
        """The state, as copies: a step may change its arrays."""
        if self._jax is None or self.state is None:
            return self.state
        kinds = (self._jax.Array, np.ndarray)
        return self._jax.tree_util.tree_map(lambda leaf: leaf.copy() if isinstance(leaf, kinds) else leaf, self.state)


class _Ending(Watch):
    """Tells another watch, and ends the tuning where the loop has ended: nothing else would, before its budget is used up."""

    def __init__(self, watch: Watch, loop: Loop) -> None:
        self._watch, self._loop = watch, loop

    def _look(self) -> Watch:
        if self._loop.clock.ended:
            raise UsageError(self._loop.clock.ended)
        return self._watch

    def preparing(self, arm: str) -> None:
        """An arm is about to be prepared."""
        self._look().preparing(arm)

    def ready(self, arm: str, failure: str | None) -> None:
        """An arm is ready, or failed."""
        self._look().ready(arm, failure)

    def round(self, experiment: Experiment, phase: Phase, done: int, of: int | None, left: float) -> None:
        """A round is over."""
        self._look().round(experiment, phase, done, of, left)

    def note(self, text: str) -> None:
        """Something to tell."""
        self._look().note(text)

    def learned(self, title: str, verdict: Verdict) -> None:
        """A change was judged."""
        self._look().learned(title, verdict)


@contextlib.contextmanager
def _variables_of_first_step(driven: _Driven) -> Iterator[Variables]:
    """Make the first step; all variables of TensorFlow, with what they held before it, or right after it made them."""
    tf = sys.modules.get("tensorflow")
    before, made = Variables.here(), list[tuple[Any, Any]]()

    def creating(create: Callable[..., Any], **options: Any) -> Any:
        variable = create(**options)
        with contextlib.suppress(Exception):  # in a graph, where it has no value yet
            made.append((variable, variable.numpy()))
        return variable

    with tf.variable_creator_scope(creating) if tf is not None else contextlib.nullcontext():
        driven.first()
    kept = Variables((*before.held, *made))
    kept.restore()
    known, now = {id(variable) for variable, _ in kept.held}, Variables.here()
    unknown = [str(getattr(each, "name", "")) for each, _ in now.held if id(each) not in known]
    if unknown:
        raise UsageError(
            f"The first step makes variables that could not be put back ({unknown[0]}): make one step before tuning."
        )
    yield kept


def _arrays(jax: Any, tree: Any) -> list[Any]:
    """The arrays of JAX in a tree."""
    return [leaf for leaf in jax.tree_util.tree_leaves(tree) if isinstance(leaf, jax.Array)]

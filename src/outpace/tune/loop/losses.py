"""Whether a variant of a loop learns as the loop does: the same steps from the same state, within what chance would do to them."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.errors import UsageError
from outpace.tune.numerics import STEPS, Band, affordable, held, judge, ordered, same, shuffled

if TYPE_CHECKING:
    from outpace.tune.climb.variant import Variant
    from outpace.tune.loop.loop import Loop
    from outpace.tune.loop.stepper import Call
    from outpace.tune.program.program import Program

CALLS = 10  # of a step's function, where no data set can be given to it again

Trajectory = Callable[["Variant | None", Sequence[int]], list[float]]


def loop_band(program: Program, variant: Variant, *, seconds: float | None = None) -> Band:
    """Run steps of the loop, of its controls (other orders of batches) and of the variant, each from the state that its variables have now;
    they are put back afterwards.

    Compared is the first number that a function of the step returns, its loss as a rule; where there is none, or parts of the step run eagerly,
    how far the variables have moved. A loop that reads no tf.data runs on; of its steps the calls of their function are made again.
    Raises UsageError where there are none.
    """
    loop, kept = program.loop, _Variables.here()
    assert loop is not None
    trajectory, steps = _of_batches(program, kept) if program.limited else _of_calls(program, loop, kept)
    order = list(range(steps)) if not program.limited else [step % steps for step in range(STEPS)]
    try:
        began = time.perf_counter()
        base = trajectory(None, order)
        spent = time.perf_counter() - began
        tried = trajectory(variant, order)
        seeds = () if same(base, tried) else range(1, 1 + affordable(seconds, spent))
        controls = [trajectory(None, shuffled(order, seed)) for seed in seeds]
    finally:
        kept.restore()
    return judge(base, tried, controls)


def _of_batches(program: Program, kept: _Variables) -> tuple[Trajectory, int]:
    """Runs the loop itself on batches that are held in memory; how many there are."""
    from outpace.tune.program.source import Feed

    loop, batches = program.loop, held(program, STEPS)
    assert loop is not None

    def trajectory(variant: Variant | None, order: Sequence[int]) -> list[float]:
        feed = Feed(ordered(batches, order))
        with _applied(program, variant):
            stepper = loop.stepper(feed)
        stepper.compile()  # its first step
        kept.restore()
        stepper.iterator = stepper.active.iterator = iter(feed.dataset)
        loop.keeps, numbers = True, []
        for _ in order:
            loop.values.clear()
            stepper.run(1)
            numbers.append(loop.values[0] if loop.values and not loop.eager else kept.moved())
        loop.keeps = False
        return numbers

    return trajectory, len(batches)


def _of_calls(program: Program, loop: Loop, kept: _Variables) -> tuple[Trajectory, int]:
    """Makes calls of the step's function again, which the loop has just made; how many there are."""
    loop.active, calls = loop.plain, loop.record(CALLS)
    if not calls:
        raise UsageError("The loop reads no data set of tf.data, and its step is no function whose calls could be made again.")

    def trajectory(variant: Variant | None, order: Sequence[int]) -> list[float]:
        kept.restore()
        with _applied(program, variant):
            function = loop.as_prepared(calls[0].function)
        numbers: list[float] = []

        def made() -> None:
            numbers.extend(_number(loop, calls[at], function, kept) for at in order)

        loop.clock.perform(loop.inside(made))
        return numbers

    return trajectory, len(calls)


def _number(loop: Loop, call: Call, function: Any, kept: _Variables) -> float:
    """What a call gives, as one number: the sum of the norms of what it returns, and of how far variables have moved."""
    leaves = loop.flat(function(*call.args, **call.kwargs))
    arrays = (np.asarray(leaf, np.float64) for leaf in leaves if hasattr(leaf, "dtype") and leaf.dtype != object)
    return math.fsum([kept.moved(), *(float(np.linalg.norm(array.ravel())) for array in arrays)])


def _applied(program: Program, variant: Variant | None) -> Any:
    return contextlib.nullcontext() if variant is None else variant.applied(program)


@dataclass(frozen=True, eq=False)
class _Variables:
    """All variables of the process, and what they held."""

    held: tuple[tuple[Any, Any], ...]

    @classmethod
    def here(cls) -> _Variables:
        kind = getattr(sys.modules.get("tensorflow"), "Variable", None)
        found = [each for each in gc.get_objects() if issubclass(type(each), kind)] if kind is not None else []
        return cls(tuple((each, each.numpy()) for each in found if _readable(each)))

    def restore(self) -> None:
        for variable, value in self.held:
            variable.assign(value)

    def moved(self) -> float:
        """How far the trainable ones are from what they held: the Euclidean distance."""
        parts = (np.asarray(v.numpy() - value, np.float64) for v, value in self.held if v.trainable and v.dtype.is_floating)
        return math.sqrt(math.fsum(float((part * part).sum()) for part in parts))


def _readable(variable: Any) -> bool:
    """Whether a variable is one of the eager program, and not a graph's."""
    try:
        variable.numpy()
    except Exception:
        return False
    return True

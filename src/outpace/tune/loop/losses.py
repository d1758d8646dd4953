"""Whether a variant of a loop learns as the loop does: the same steps from the same state, within what chance would do to them."""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.model.errors import UsageError
from outpace.tune.numerics import STEPS, Band, affordable, held, judge, ordered, same, shuffled

if TYPE_CHECKING:
    from outpace.tune.climb.variant import Variant
    from outpace.tune.loop.stepper import LoopStepper
    from outpace.tune.program.program import Program


def loop_band(program: Program, variant: Variant, steps: int = STEPS, *, seconds: float | None = None) -> Band:
    """Run `steps` steps of the loop, of its controls (other orders of batches) and of the variant, each from the state that its variables have
    now; they are put back afterwards.

    Compared is the first number that a function of the step returns, its loss as a rule; where there is none, how far the variables have
    moved. Raises UsageError where the loop's batches cannot be held.
    """
    if not program.limited:
        raise UsageError("The loop reads no data set of tf.data, so that its batches cannot be given to both in one order.")
    kept = _Variables.here()
    batches = held(program, steps)
    order = [step % len(batches) for step in range(steps)]
    try:
        began = time.perf_counter()
        base = list(_trajectory(program, None, batches, order, kept))
        spent = time.perf_counter() - began
        tried = list(_trajectory(program, variant, batches, order, kept))
        seeds = () if same(base, tried) else range(1, 1 + affordable(seconds, spent))
        controls = [list(_trajectory(program, None, batches, shuffled(order, seed), kept)) for seed in seeds]
    finally:
        kept.restore()
    return judge(base, tried, controls)


def _trajectory(
    program: Program, variant: Variant | None, batches: Sequence[Any], order: Sequence[int], kept: _Variables
) -> Iterator[float]:
    """The number of each step, with the knobs of a variant."""
    from outpace.tune.program.source import Feed

    loop, feed = program.loop, Feed(ordered(batches, order))
    assert loop is not None
    stepper: LoopStepper
    if variant is None:
        stepper = loop.stepper(feed)
    else:
        with variant.applied(program):
            stepper = loop.stepper(feed)
    stepper.compile()  # its first step
    kept.restore()
    stepper.iterator = stepper.active.iterator = iter(feed.dataset)
    loop.keeps = True
    try:
        for _ in order:
            loop.values.clear()
            stepper.run(1)
            yield loop.values[0] if loop.values else kept.moved()
    finally:
        loop.keeps = False


@dataclass(frozen=True, eq=False)
class _Variables:
    """All variables of the process, and what they held."""

    held: tuple[tuple[Any, Any], ...]

    @classmethod
    def here(cls) -> _Variables:
        kind = sys.modules["tensorflow"].Variable
        found = [each for each in gc.get_objects() if issubclass(type(each), kind)]
        return cls(tuple((each, each.numpy()) for each in found if _readable(each)))

    def restore(self) -> None:
        for variable, value in self.held:
            variable.assign(value)

    def moved(self) -> float:
        """How far the trainable ones are from what they held: the Euclidean distance."""
        import numpy as np

        parts = (np.asarray(v.numpy() - value, np.float64) for v, value in self.held if v.trainable and v.dtype.is_floating)
        return math.sqrt(sum(float((part * part).sum()) for part in parts))


def _readable(variable: Any) -> bool:
    """Whether a variable is one of the eager program, and not a graph's."""
    try:
        variable.numpy()
    except Exception:
        return False
    return True

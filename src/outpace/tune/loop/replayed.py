"""Steps of a JAX loop, recorded and made again from the same state: whether a variant's give what the loop's own give, but for rounding."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError
from outpace.tune.loop.stepper import Active, finished
from outpace.tune.loop.weave import SEVERAL
from outpace.tune.program.state import nudged
from outpace.tune.program.stepper import SETTLE, Runner, quiesce

if TYPE_CHECKING:
    from outpace.tune.loop.woven import Woven


@dataclass(frozen=True, eq=False)
class Replayed:
    """Steps that a loop has made. carried: the state before the first of them. made: the inputs of each, and what it read besides."""

    woven: Woven
    carried: Any
    made: tuple[tuple[Any, Any], ...]

    def state(self, nudge: int = 0) -> Any:
        """The first state, which a step may give away; `nudge`: each number moved by one rounding, up or down by that seed."""
        jax = _jax()

        def copied(leaf: Any) -> Any:
            if nudge and isinstance(leaf, jax.Array) and "float" in str(leaf.dtype):
                return jax.device_put(nudged(leaf, nudge), leaf.sharding)
            return leaf.copy() if hasattr(leaf, "is_deleted") else leaf

        return jax.tree.map(copied, self.carried)

    def stacked(self, order: Sequence[int]) -> Any:
        """The inputs of steps in an order, put together."""
        return _jax().tree.map(lambda *leaves: np.stack(leaves), *(self.made[at][0] for at in order))

    def run(self, active: Active, order: Sequence[int], size: int, nudge: int = 0) -> tuple[list[float], list[Any]]:
        """The first number that each step in an order gives, in calls of `size` where the variant makes several; where steps give none, how far
        the state has moved after each `size` of them. And the arrays that the first `size` of them left."""
        state, numbers, several = self.state(nudge), list[float](), _several(active)
        before, first = [np.asarray(leaf, np.float64) for leaf in _floats(state)], list[Any]()
        for at in range(0, len(order), size):
            part = order[at : at + size]
            fixed = self.made[part[0]][1]
            if several and len(part) == size:
                state, results = self.woven.several(state, self.stacked(part), fixed, size)
            else:
                state, results = self._singly(state, part)
            found = [float(_floats(each)[0]) for each in results if _floats(each) and np.ndim(_floats(each)[0]) == 0]
            numbers += found if len(found) == len(part) else [_distance(before, state)]
            if not at:
                first = [np.array(leaf) for leaf in _floats((state, results))]
        if active.failure:
            raise CaptureError(active.failure)
        return numbers, first

    def _singly(self, state: Any, order: Sequence[int]) -> tuple[Any, list[Any]]:
        results = []
        for at in order:
            inputs, fixed = self.made[at]
            state, result = self.woven.step(state, inputs, fixed)
            results.append(result)
        return state, results


class ReplayStepper(Runner):
    """Makes steps again, each from the state that the one before it left: the step without what the loop does around it."""

    def __init__(self, replayed: Replayed, active: Active) -> None:
        self.replayed, self.active, self.iterator = replayed, active, None
        self._state, self._at = replayed.state(), itertools.cycle(range(len(replayed.made)))
        self._size = replayed.woven.per_call if _several(active) else 1
        self._stack = replayed.stacked([next(self._at) for _ in range(self._size)]) if self._size > 1 else None

    def compile(self) -> None:
        """Make the first call, which traces."""
        self.run(1)

    def run(self, steps: int) -> int:
        """Make at least so many steps, in whole calls, until they are complete."""
        woven, calls = self.replayed.woven, math.ceil(steps / self._size)

        def made() -> None:
            woven.loop.active = self.active
            for _ in range(calls):
                inputs, fixed = self.replayed.made[next(self._at)]
                if self._stack is not None:
                    self._state, _ = woven.several(self._state, self._stack, fixed, self._size)
                else:
                    self._state, _ = woven.step(self._state, inputs, fixed)
            finished()

        woven.loop.clock.perform(woven.loop.inside(made))
        if self.active.failure:
            raise CaptureError(self.active.failure)
        return calls * self._size

    def drain(self) -> None:
        """Nothing is read ahead."""
        self.run(SETTLE)

    def rest(self) -> None:
        """A block is over."""
        quiesce()


def _several(active: Active) -> bool:
    return SEVERAL in active.turned


def _jax() -> Any:
    return sys.modules["jax"]


def _floats(tree: Any) -> list[Any]:
    return [leaf for leaf in _jax().tree.leaves(tree) if "float" in str(getattr(leaf, "dtype", ""))]


def _distance(before: Sequence[Any], state: Any) -> float:
    """How far a state's arrays are from what they were: the Euclidean distance."""
    moved = (np.asarray(now, np.float64) - then for now, then in zip(_floats(state), before, strict=True))
    return math.sqrt(math.fsum(float((part * part).sum()) for part in moved))


RELATIVE = 1e-5  # of an array's largest number
AMPLIFIED = (
    8  # times what moving every number of the state by one rounding does to the same step: another order of sums rounds often
)
# Where one rounding does more than that to an array of float32, and not to most others, 14 of its 24 bits are gone, and it holds what is left
# of sums whose terms cancel, such as the gradient of a bias before a normalisation. There another order rounds once per term.
CANCELLED, SUMMED, MOST = 2.0**-9, 100, 0.99  # of its largest number; times what one rounding does, up to so much of it

Arrays = Sequence[np.ndarray[Any, Any]]


def apart(base: Arrays, other: Arrays) -> list[float]:
    """How far the arrays of one step are from those of another one, each in parts of its largest number; infinite for another shape or kind,
    and for integers that differ."""
    if len(base) != len(other):
        return [float("inf")]
    return [_apart(a, b) for a, b in zip(base, other, strict=True)]


def random(base: Arrays, again: Arrays) -> bool:
    """Whether two runs of the loop's own step from one state differ: it draws random numbers that come from none of its variables or
    arguments."""
    return max(apart(base, again), default=0.0) > RELATIVE


def objection(base: Arrays, own: Sequence[Arrays], variant: Arrays) -> str | None:
    """What speaks against a variant after one step from the same state; None for nothing.

    own: the loop's own step once more, and from states in which every number was moved by one rounding. What these do to the step, `AMPLIFIED`
    times over, a variant may do, too; `SUMMED` times where that says that nothing but rounding is left.
    """
    if not base:
        return "its step changes nothing that could be compared: no variable of TensorFlow, and it returns no array"
    again, *moved = (apart(base, each) for each in own)
    nudges = list(map(max, zip(*moved, strict=True))) if moved else [0.0] * len(base)
    few = 2 * sum(nudge > CANCELLED for nudge in nudges) <= len(nudges)
    allowed = [_allowed(*each, few) for each in zip(base, again, nudges, strict=True)]
    worst = max((far / most if far < math.inf else far, far) for far, most in zip(apart(base, variant), allowed, strict=False))
    if worst[0] > 1:
        return f"after one step from the same state the results differ by {worst[1]:.1e} of their size, which is more than rounding"
    return None


def _allowed(array: np.ndarray[Any, Any], again: float, nudge: float, few: bool) -> float:
    """How far a variant may be from an array, in parts of its largest number, by what the step once more, and one rounding, do to it; `few`: to
    few arrays as much."""
    cancelled = few and nudge > CANCELLED and again <= RELATIVE and array.dtype == np.float32
    return max(RELATIVE, AMPLIFIED * again, AMPLIFIED * nudge, min(SUMMED * nudge, MOST) if cancelled else 0.0)


def _apart(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if "float" not in str(a.dtype):
        return 0.0 if np.array_equal(a, b) else float("inf")
    one, other = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return float("inf")
    size = float(np.abs(one[finite]).max(initial=0.0))
    far = float(np.abs(one[finite] - other[finite]).max(initial=0.0))
    return far / size if size else far and float("inf")

"""Steps of a loop of JAX, made again from what they were given: its model alone, and what a variant would learn."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError
from outpace.tune.loop.agreement import nudged
from outpace.tune.loop.options import SEVERAL
from outpace.tune.loop.stepper import Active, finished
from outpace.tune.program.stepper import SETTLE, Runner, quiesce

if TYPE_CHECKING:
    from outpace.tune.loop.woven import Woven


@dataclass(frozen=True, eq=False)
class Replayed:
    """Steps that a loop has made. carried: the state before the first of them. made: the inputs of each, and what it read besides."""

    woven: Woven
    carried: Any
    made: tuple[tuple[Any, Any], ...]

    def state(self, nudge: bool = False) -> Any:
        """The first state, which a step may give away; `nudge`: each number moved by one rounding."""
        jax = _jax()

        def copied(leaf: Any) -> Any:
            if nudge and isinstance(leaf, jax.Array) and "float" in str(leaf.dtype):
                return jax.device_put(nudged(leaf), leaf.sharding)
            return leaf.copy() if hasattr(leaf, "is_deleted") else leaf

        return jax.tree.map(copied, self.carried)

    def stacked(self, order: Sequence[int]) -> Any:
        """The inputs of steps in an order, put together."""
        return _jax().tree.map(lambda *leaves: np.stack(leaves), *(self.made[at][0] for at in order))

    def run(self, active: Active, order: Sequence[int], size: int, nudge: bool = False) -> tuple[list[float], list[Any]]:
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

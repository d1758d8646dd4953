"""Whether one step of a variant gives what the loop's own gives, but for rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

RELATIVE = 1e-5  # of an array's largest number
AMPLIFIED = (
    8  # times what moving every number of the state by one rounding does to the same step: another order of sums rounds often
)

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


def objection(base: Arrays, again: Arrays, moved: Arrays, variant: Arrays) -> str | None:
    """What speaks against a variant after one step from the same state; None for nothing.

    again: the loop's own step, once more. moved: the same from a state in which every number was moved by one rounding. What these do to
    the step, eight times over, a variant may do, too.
    """
    if not base:
        return "its step changes nothing that could be compared: no variable of TensorFlow, and it returns no array"
    by_itself = (max(pair) for pair in zip(apart(base, moved), apart(base, again), strict=True))
    allowed = [max(RELATIVE, AMPLIFIED * far) for far in by_itself]
    worst = max((far / most if far < math.inf else far, far) for far, most in zip(apart(base, variant), allowed, strict=False))
    if worst[0] > 1:
        return f"after one step from the same state the results differ by {worst[1]:.1e} of their size, which is more than rounding"
    return None


def nudged(value: Any) -> Any:
    """Every number of an array moved by one rounding, up or down; what is no floating number stays."""
    array = np.asarray(value)
    if "float" not in str(array.dtype):
        return value
    epsilon = np.finfo(array.dtype).eps if array.dtype.kind == "f" else 2.0**-8
    signs = np.random.default_rng(0).choice((-1.0, 1.0), array.shape)
    return (array.astype(np.float64) * (1 + epsilon * signs)).astype(array.dtype)


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

"""Algorithms on event columns, for the layers above: the core's, and set algebra."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from outpace._native import cover, group, latest, nest, nest_rows, spread, sweep
from outpace.model.arrays import Indices

__all__ = ["common", "cover", "distinct", "group", "latest", "nest", "nest_rows", "spread", "sweep"]
_Whole = TypeVar("_Whole", bound=np.integer[Any])


def distinct(values: npt.NDArray[_Whole]) -> npt.NDArray[_Whole]:
    """Sorted distinct values. (`np.unique` without options imports masked arrays: 10 ms in every fresh process.)"""
    ordered = np.sort(values)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))]


def common(first: Indices, second: Indices) -> tuple[Indices, Indices]:
    """Positions in `first` and in `second` of the values that both hold; both are sorted, and `second` holds a value once."""
    at = np.minimum(np.searchsorted(second, first), max(len(second) - 1, 0))
    found = np.flatnonzero(second[at] == first) if len(second) else np.zeros(0, np.int64)
    return found, at[found]

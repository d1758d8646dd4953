"""Algorithms on event columns, for the layers above: the core's (nesting, grouping, joining, spreading, sweeping, coverage) and set algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from outpace._native import cover, group, join, nest, nest_rows, spread, sweep

__all__ = ["common", "cover", "distinct", "group", "join", "nest", "nest_rows", "spread", "sweep"]
Array = npt.NDArray[Any]


def distinct(values: Array) -> Array:
    """Sorted distinct values. (`np.unique` without options imports masked arrays: 10 ms in every fresh process.)"""
    ordered = np.sort(values)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))]


def common(first: Array, second: Array) -> tuple[Array, Array]:
    """Positions in `first` and in `second` of the values that both hold; both are sorted, and `second` holds a value once."""
    at = np.minimum(np.searchsorted(second, first), max(len(second) - 1, 0))
    found = np.flatnonzero(second[at] == first) if len(second) else np.zeros(0, np.int64)
    return found, at[found]

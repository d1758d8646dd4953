# SPDX-License-Identifier: Apache-2.0
"""Algorithms on event columns for the layers above: those of the core, and set operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from outpace._native import (
    aggregate_by_key,
    compute_nesting,
    compute_time_by_priority,
    compute_union_length,
    divide_time,
    match_latest,
    propagate_groups,
)
from outpace.model.arrays import Codes, Indices, Mask

__all__ = [
    "aggregate_by_key",
    "compute_nesting",
    "compute_time_by_priority",
    "compute_union_length",
    "distinct",
    "divide_time",
    "find_positions",
    "find_slice",
    "intersect_indices",
    "isin",
    "match_latest",
    "propagate_groups",
    "take_codes",
    "union_rows",
]
_TABLE = 6  # times the number of integers: largest range that is looked up in a table, of a byte for each, as in NumPy
_BLOCK = 1 << 16  # rows per block, chosen to fit into a processor's cache
_Whole = TypeVar("_Whole", bound=np.integer[Any])
_Any = TypeVar("_Any", bound=np.generic)


def take_codes(values: npt.NDArray[_Any], codes: Codes) -> npt.NDArray[_Any]:
    """Return `values[codes]`, computed in blocks. In one pass, NumPy would first convert all codes
    to 64 bits, which takes eight bytes per event and fits into no cache.
    """
    result = np.empty(len(codes), values.dtype)
    for begin in range(0, len(codes), _BLOCK):
        np.take(values, codes[begin : begin + _BLOCK], out=result[begin : begin + _BLOCK], mode="clip")
    return result


def distinct(values: npt.NDArray[_Whole]) -> npt.NDArray[_Whole]:
    """Return the sorted distinct values.

    `np.unique` without options is not used because it imports masked arrays, 10 ms in every fresh
    process.
    """
    ordered = np.sort(values)
    return ordered[_first(ordered)]


def _first(ordered: npt.NDArray[_Whole]) -> Mask:
    """Return a boolean per sorted value: whether it differs from the one before."""
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return is_first


def isin(values: npt.NDArray[np.integer[Any]], chosen: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Mask:
    """Return a boolean per value: whether it is among the integers `chosen`.

    `np.isin` compares by a table where these lie close together. Where they do not, it is not used
    because it imports masked arrays, 10 ms in every fresh process.
    """
    ordered = np.sort(np.asarray(chosen, values.dtype))
    if not len(ordered) or int(ordered[-1]) - int(ordered[0]) < _TABLE * (len(values) + len(ordered)):
        return np.isin(values, ordered, kind="table")
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    mask: Mask = ordered[at] == values
    return mask


def find_positions(sorted_rows: Indices, rows: Indices) -> Indices:
    """Return the index in `sorted_rows` of each of `rows`, which may be in any order: int32, the
    last match where there are several, -1 where there is none.
    """
    positions = np.full(len(rows), -1, np.int32)
    for begin in range(0, len(rows) if len(sorted_rows) else 0, _BLOCK):
        targets = rows[begin : begin + _BLOCK].astype(sorted_rows.dtype)
        at = np.maximum(np.searchsorted(sorted_rows, targets, side="right") - 1, 0)
        positions[begin : begin + _BLOCK] = np.where(sorted_rows[at] == targets, at, -1)
    return positions


def find_slice(rows: Indices, block: slice) -> slice:
    """Return the slice of `rows` (sorted) that lies in `block`, for `rows[find_slice(rows,
    block)]`.
    """
    return slice(*np.searchsorted(rows, (block.start, block.stop)).tolist())


def union_rows(*rows: Indices) -> Indices:
    """Return the sorted distinct rows of several arrays; int64."""
    joined = np.concatenate([np.zeros(0, np.int64), *rows])
    return joined if (joined[1:] > joined[:-1]).all() else distinct(joined)


def intersect_indices(first: Indices, second: Indices) -> tuple[Indices, Indices]:
    """Return the positions in `first` and in `second` of the values that both contain. Both are
    sorted, and the values of `second` are distinct.
    """
    at = np.minimum(np.searchsorted(second, first), max(len(second) - 1, 0))
    common = np.flatnonzero(second[at] == first) if len(second) else np.zeros(0, np.int64)
    return common, at[common]

"""The native core, loaded with ctypes. Only `outpace.trace` may import this package."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Key = Array | tuple[Array, Array]


class Sizes(ctypes.Structure):
    """Mirror of `ox_sizes` in `native/include/outpace.h`, where the fields are described."""

    _fields_ = [
        *(
            (name, ctypes.c_uint64)
            for name in ("planes", "lines", "events", "event_names", "stat_names", "owner_stats", "strings")
        ),
        *((name, ctypes.c_uint64) for name in ("damages", "damages_total", "aggregated", "clamped")),
        ("origin_ns", ctypes.c_int64),
    ]


class LineSlices(ctypes.Structure):
    """Mirror of `ox_line_slices`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("space", "name", "start_ps", "duration_ps", "mask", "argument")),
        ("shift_ns", ctypes.c_int64),
        *((name, ctypes.c_uint64) for name in ("line", "track", "flows")),
        *((name, ctypes.c_void_p) for name in ("flow_row", "flow_id", "flow_ends")),
    ]


class MadeSlices(ctypes.Structure):
    """Mirror of `ox_made_slices`."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("slices", "arguments", "texts", "track")),
        *((name, ctypes.c_void_p) for name in ("start_ps", "duration_ps", "name", "argument_name", "argument_kind")),
        *((name, ctypes.c_void_p) for name in ("argument_value", "text", "text_at")),
        ("category", ctypes.c_uint32),
        ("shift_ns", ctypes.c_int64),
    ]


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """Load the core once. Raises ImportError with the way out when the package was not built."""
    path = Path(__file__).with_name("core.so")
    try:
        core = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"Outpace's native core is missing or broken ({error}); reinstall with 'pip install --force-reinstall .'"
        ) from error
    core.ox_open.restype = ctypes.c_void_p
    core.ox_open.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int32]
    core.ox_find_stats.restype = ctypes.c_void_p
    core.ox_join.restype = ctypes.c_void_p
    core.ox_events.restype = ctypes.c_int32
    core.ox_export_open.restype = ctypes.c_void_p
    core.ox_export_line.restype = core.ox_export_made.restype = ctypes.c_uint64
    return core


def threads() -> int:
    """Worker threads for the core: the cores that this process may use, at most 8."""
    return min(len(os.sched_getaffinity(0)), 8)


def pointer(array: Array | None) -> ctypes.c_void_p | None:
    """Address of a C-contiguous array's data, None for none."""
    if array is None:
        return None
    if not array.flags.c_contiguous:
        raise ValueError("the core needs contiguous arrays")
    return ctypes.c_void_p(array.ctypes.data)


def nest(first_event: Array, start: Array, duration: Array, mask: Array | None = None) -> tuple[Array, Array, Array]:
    """Parent row, end of subtree and self time of every event; see `ox_nest`."""
    count = len(start)
    parent, subtree_end = np.empty(count, np.int32), np.empty(count, np.int32)
    self_time = np.empty(count, np.int64)
    bounds = np.ascontiguousarray(first_event, np.uint64)
    spans = [np.ascontiguousarray(a, np.int64) for a in (start, duration)]  # named, so that they live until the call returns
    flags = None if mask is None else np.ascontiguousarray(mask, np.uint8)
    library().ox_nest(
        ctypes.c_uint64(len(bounds) - 1),
        pointer(bounds),
        *map(pointer, spans),
        pointer(flags),
        threads(),
        pointer(parent),
        pointer(subtree_end),
        pointer(self_time),
    )
    return parent, subtree_end, self_time


def nest_rows(first_event: Array, start: Array, duration: Array, rows: Array) -> tuple[Array, Array]:
    """Nesting among some events only: (parent row or -1, self time) of each of `rows`, which are sorted. The other events do not exist."""
    bounds = np.searchsorted(rows, np.asarray(first_event, rows.dtype))
    parent, _, self_time = nest(bounds, start[rows], duration[rows])
    return np.where(parent >= 0, rows[parent], -1), self_time


def group(key: Array, keys: int, duration: Array, self_time: Array, mask: Array | None = None) -> tuple[Array, ...]:
    """Count, total, self total, minimum and maximum duration per key in [0, keys); see `ox_group`."""
    out = tuple(np.empty(keys, np.int64) for _ in range(5))
    flags = None if mask is None else np.ascontiguousarray(mask, np.uint8)
    keyed = np.ascontiguousarray(key, np.int32)
    times = [np.ascontiguousarray(a, np.int64) for a in (duration, self_time)]
    library().ox_group(
        ctypes.c_uint64(len(key)),
        pointer(keyed),
        pointer(flags),
        *map(pointer, times),
        ctypes.c_uint64(keys),
        *map(pointer, out),
    )
    return out


def spread(subtree_end: Array, cause: Array, effect: Array, root_row: Array, root_group: Array) -> Array:
    """Group of every event, -1 for none; edges may come in any order; see `ox_spread`."""
    result = np.full(len(subtree_end), -1, np.int32)
    ends = np.ascontiguousarray(subtree_end, np.int32)
    edges = [np.ascontiguousarray(a, np.int32) for a in (cause, effect)]
    roots = [np.ascontiguousarray(a, np.int32) for a in (root_row, root_group)]
    library().ox_spread(
        ctypes.c_uint64(len(subtree_end)),
        pointer(ends),
        ctypes.c_uint64(len(cause)),
        *map(pointer, edges),
        ctypes.c_uint64(len(root_row)),
        *map(pointer, roots),
        pointer(result),
    )
    return result


def join(cause: Array, cause_key: Key, effect: Array, effect_key: Key, crowd: int = 0) -> tuple[Array, Array]:
    """All pairs (cause row, effect row) with equal keys, int32, ordered by effect; see `ox_join`.

    A key is one uint64 column, or two that are compared together.
    """
    sides = []  # named, so that the columns live until the pairs are taken
    for rows, key in ((cause, cause_key), (effect, effect_key)):
        first, second = key if isinstance(key, tuple) else (key, None)
        sides.append((
            np.ascontiguousarray(rows, np.int32),
            np.ascontiguousarray(first, np.uint64),
            None if second is None else np.ascontiguousarray(second, np.uint64),
        ))  # fmt: skip
    count = ctypes.c_uint64()
    columns = ((ctypes.c_uint64(len(side[0])), *map(pointer, side)) for side in sides)
    pairs = ctypes.c_void_p(
        library().ox_join(*next(columns), *next(columns), ctypes.c_uint32(crowd), threads(), ctypes.byref(count))
    )
    out = np.empty(count.value, np.int32), np.empty(count.value, np.int32)
    library().ox_pairs_take(pairs, *map(pointer, out))
    return out


def sweep(group_of: Array, priority: Array, start: Array, end: Array, begin: Array, finish: Array, priorities: int) -> Array:
    """Time per (window, priority), int64 ps of shape (windows, priorities); see `ox_sweep`."""
    out = np.zeros((len(begin), priorities), np.int64)
    spans = [
        np.ascontiguousarray(a, t) for a, t in ((group_of, np.int32), (priority, np.uint8), (start, np.int64), (end, np.int64))
    ]
    windows = [np.ascontiguousarray(a, np.int64) for a in (begin, finish)]
    library().ox_sweep(
        ctypes.c_uint64(len(group_of)),
        *map(pointer, spans),
        ctypes.c_uint64(len(begin)),
        *map(pointer, windows),
        ctypes.c_uint32(priorities),
        threads(),
        pointer(out),
    )
    return out


def cover(start: Array, end: Array, begin: int, finish: int) -> tuple[int, int]:
    """Length of the union of spans (sorted by start) in [begin, finish), and the sum of their clipped lengths; see `ox_cover`."""
    covered, summed = ctypes.c_int64(), ctypes.c_int64()
    spans = [np.ascontiguousarray(a, np.int64) for a in (start, end)]
    library().ox_cover(
        ctypes.c_uint64(len(start)),
        *map(pointer, spans),
        ctypes.c_int64(begin),
        ctypes.c_int64(finish),
        ctypes.byref(covered),
        ctypes.byref(summed),
    )
    return covered.value, summed.value

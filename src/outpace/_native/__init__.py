# SPDX-License-Identifier: Apache-2.0
"""The native core, loaded with ctypes. Only `outpace.trace` may import this package.

`native/include/outpace.h` is the interface. `ABI` is the checksum of the header that this package
was written for, and `SIGNATURES` repeats its declarations for ctypes. Tests compare both with the
header.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint32, c_uint64, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from outpace._cpus import available_cpus
from outpace.model.arrays import Codes, Column, Indices, Key, Mask, Numbers, Picoseconds, Values
from outpace.model.errors import InstallationError, ProfileError

ABI = 4099843499
"""CRC-32 of `native/include/outpace.h`. A library that returns another value was built from other
sources.
"""

_STATUS: dict[int, tuple[type[Exception], str]] = {
    1: (MemoryError, "an allocation of the native core failed (in {})"),
    2: (RuntimeError, "it failed (in {})"),
    3: (MemoryError, "there are more events than it can number (2^31; in {})"),
    4: (ProfileError, "The bytes of the profile changed while they were read. Open it again once whatever writes it is done."),
    5: (OverflowError, "there is more in the file than its budget allows (in {})"),
    6: (
        ProfileError,
        "The file of the profile cannot be read any more: the system answers with an error. Open it again once it can be.",
    ),
}

_P, _I32, _I64, _U32, _U64 = c_void_p, c_int32, c_int64, c_uint32, c_uint64
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "ox_open": (_P, _I32, _U64, _I32, _P),
    "ox_hold": (_P, _P),
    "ox_merge_stat_names": (_P, _P),
    "ox_get_sizes": (_P, _P),
    "ox_planes": (_P, _P, _P, _P, _P),
    "ox_lines": (_P, _P, _P, _P, _P, _P, _P),
    "ox_event_names": (_P, _P, _P, _P, _P, _P, _P),
    "ox_stat_names": (_P, _P, _P, _P, _P),
    "ox_owner_stats": (_P, _P, _P, _P, _P, _P, _P),
    "ox_strings": (_P, _P, _P, _P),
    "ox_damages": (_P, _P, _P, _P, _P),
    "ox_window": (_P, _I64, _I64, _I32, _I32, _P, _P),
    "ox_events": (_P, _I32, _P, _P, _P),
    "ox_aggregated": (_P, _P, _P),
    "ox_repeated": (_P, _P),
    "ox_stat_bounds": (_P, _P, _U32, _P),
    "ox_stats": (_P, _P, _U32, _I32, _P, _P, _P, _P),
    "ox_nest": (_U64, _P, _P, _P, _P, _I32, _P, _P, _P),
    "ox_pack_plan": (_U64, _P, _U32, _I32, _P, _P, _P),
    "ox_pack": (_U64, _P, _U32, _I32, _P, _I64, _U32, _P),
    "ox_unpack": (_P, _U64, _P, _U32, _U64, _P, _U32),
    "ox_search": (_P, _U64, _U64, _U64, _P, _I32, _P),
    "ox_latest": (_U64, _P, _P, _P, _U64, _P, _P, _P, _I32, _P),
    "ox_group": (_U64, _P, _P, _P, _P, _U64, _P, _P, _P, _P, _P),
    "ox_spread": (_U64, _P, _U64, _P, _P, _U64, _P, _P, _P),
    "ox_sweep": (_U64, _P, _P, _P, _P, _U64, _P, _P, _U32, _I32, _P),
    "ox_share": (_U64, _P, _P, _P, _P, _P, _P, _P),
    "ox_cover": (_U64, _P, _P, _I64, _I64, _P, _P),
    "ox_export_open": (_I32, _I32, _P),
    "ox_export_track": (_P, _U64, _U64, _I32, _I32, _P, _U32, _P, _U32),
    "ox_export_line": (_P, _P, _P),
    "ox_export_made": (_P, _P, _P),
    "ox_export_counter": (_P, _U64, _U64, _P, _P, _I64),
    "ox_export_finish": (_P, _P),
}
"""Argument types of the core functions that return a status."""

FREE_FUNCTIONS = ("ox_close", "ox_export_close")
"""Functions that free the handle in their argument and return nothing."""


class SourceStruct(ctypes.Structure):
    """Mirror of the C struct `ox_source`, where the fields are described."""

    _fields_ = [("memory", c_void_p), ("size", c_uint64), ("file", c_int64), ("block", c_uint64)]


class SizesStruct(ctypes.Structure):
    """Mirror of the C struct `ox_sizes`, where the fields are described."""

    _fields_ = [
        *((name, c_uint64) for name in ("planes", "lines", "events", "event_names", "stat_names", "owner_stats", "strings")),
        *((name, c_uint64) for name in ("damages", "damages_total", "aggregated", "clamped", "nameless_stats")),
        ("origin_ns", c_int64),
    ]


class PackedStruct(ctypes.Structure):
    """Mirror of the C struct `ox_packed`, where the fields are described."""

    _fields_ = [
        *((name, c_uint64) for name in ("count", "asides")),
        ("unit", c_int64),
        *((name, c_void_p) for name in ("small", "base", "aside_row", "aside")),
        ("width", c_uint32),
    ]


class LineSlicesStruct(ctypes.Structure):
    """Mirror of the C struct `ox_line_slices`, where the fields are described."""

    _fields_ = [
        *((name, c_void_p) for name in ("space", "name", "start_ps", "duration_ps", "mask", "argument")),
        ("shift_ns", c_int64),
        *((name, c_uint64) for name in ("line", "track", "flows")),
        *((name, c_void_p) for name in ("flow_row", "flow_id", "flow_ends")),
    ]


class MadeSlicesStruct(ctypes.Structure):
    """Mirror of the C struct `ox_made_slices`, where the fields are described."""

    _fields_ = [
        *((name, c_uint64) for name in ("slices", "arguments", "texts", "track")),
        *((name, c_void_p) for name in ("start_ps", "duration_ps", "name", "argument_name", "argument_kind")),
        *((name, c_void_p) for name in ("argument_value", "text", "text_at")),
        ("category", c_uint32),
        ("shift_ns", c_int64),
    ]


@lru_cache(maxsize=1)
def load_library() -> ctypes.CDLL:
    """Return the core's library, loaded on the first call. Raises InstallationError, which says how
    to reinstall, where the library is missing or was built from another version of the sources.
    """
    path = Path(__file__).with_name("core.so")
    try:
        core = ctypes.CDLL(str(path))
        core.ox_abi.restype, core.ox_abi.argtypes = c_uint32, ()
        found = core.ox_abi()
    except (OSError, AttributeError) as error:
        raise InstallationError(f"Outpace's native core is missing or broken ({error}). {_REINSTALL}") from error
    if found != ABI:
        raise InstallationError(f"Outpace's native core ({path}) is of another version than its Python files. {_REINSTALL}")
    for name, types in SIGNATURES.items():
        function = getattr(core, name)
        function.restype, function.argtypes = c_int32, types
    for name in FREE_FUNCTIONS:
        function = getattr(core, name)
        function.restype, function.argtypes = None, (c_void_p,)
    return core


_REINSTALL = "Reinstall it: pip install --force-reinstall outpace, or in a source tree: pip install --force-reinstall ."


def call(name: str, *arguments: Any) -> None:
    """Call a function of the core. Arrays are passed by the address of their data (None as a null
    pointer); structures and ctypes numbers are passed by reference, and the core may fill them in.

    Raises MemoryError where the core lacks memory or there are more events than it can number,
    OverflowError for a file beyond its budget, ProfileError for a file that changed or became
    unreadable, RuntimeError for any other failure of the core.
    """
    status = getattr(load_library(), name)(*map(_argument, arguments))
    if status:
        kind, sentence = _STATUS[status]
        raise kind(sentence.format(name))


def free_handle(name: str, handle: int) -> None:
    """Free a handle that the core returned, by the core's function `name`."""
    getattr(load_library(), name)(handle)


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return pointer(value)
    return ctypes.byref(value) if isinstance(value, (ctypes.Structure, c_uint64, c_int64, c_int32)) else value


def thread_count() -> int:
    """Number of worker threads for the core: the cores that this process may use, at most 8."""
    return min(available_cpus(), 8)


def pointer(array: Column) -> c_void_p:
    """Address of an array's data. Raises ValueError where the array is not C-contiguous."""
    if not array.flags.c_contiguous:
        raise ValueError("the core needs contiguous arrays")
    return c_void_p(array.ctypes.data)


def compute_subtree_ends(first_event: Indices, start: Picoseconds, duration: Picoseconds, mask: Mask | None = None) -> Indices:
    """Return one past the last row below each event, int32, counting only the events of `mask` (all
    by default); see `ox_nest`.
    """
    subtree_end = np.empty(len(start), np.int32)
    flags = None if mask is None else np.ascontiguousarray(mask, np.uint8)
    _nest(first_event, start, duration, flags, thread_count(), None, subtree_end, None)
    return subtree_end


def compute_parents(first_event: Indices, start: Picoseconds, duration: Picoseconds) -> Indices:
    """Return the row of each event's parent, int32, -1 for none; see `ox_nest`."""
    parent = np.empty(len(start), np.int32)
    _nest(first_event, start, duration, None, thread_count(), parent, None, None)
    return parent


def compute_nesting(first_event: Indices, start: Picoseconds, duration: Picoseconds) -> tuple[Indices, Picoseconds]:
    """Return (row of the parent or -1, self time in ps) of each event; see `ox_nest`."""
    parent, self_time = np.empty(len(start), np.int32), np.empty(len(start), np.int64)
    _nest(first_event, start, duration, None, thread_count(), parent, None, self_time)
    return parent, self_time


def _nest(first_event: Indices, start: Picoseconds, duration: Picoseconds, *rest: Any) -> None:
    spans = (np.ascontiguousarray(a, np.int64) for a in (start, duration))
    call("ox_nest", len(first_event) - 1, np.ascontiguousarray(first_event, np.uint64), *spans, *rest)


def aggregate_by_key(
    key: Codes, key_count: int, duration: Picoseconds, self_time: Picoseconds, mask: Mask | None = None
) -> tuple[Numbers, ...]:
    """Return count, total duration, total self time, minimum and maximum duration per key, int64 of
    shape (key_count,) each; keys are in [0, key_count), times in ps; see `ox_group`.
    """
    out = tuple(np.empty(key_count, np.int64) for _ in range(5))
    flags = None if mask is None else np.ascontiguousarray(mask, np.uint8)
    times = [np.ascontiguousarray(a, np.int64) for a in (duration, self_time)]
    call("ox_group", len(key), np.ascontiguousarray(key, np.int32), flags, *times, key_count, *out)
    return out


def propagate_groups(subtree_end: Indices, cause: Indices, effect: Indices, root_row: Indices, root_group: Codes) -> Codes:
    """Return the group of each event, int32, -1 for none. `cause` and `effect` are the rows of the
    edges' ends, in any order; see `ox_spread`.
    """
    result = np.full(len(subtree_end), -1, np.int32)
    ends, *edges = (np.ascontiguousarray(a, np.int32) for a in (subtree_end, cause, effect))
    roots = [np.ascontiguousarray(a, np.int32) for a in (root_row, root_group)]
    call("ox_spread", len(ends), ends, len(cause), *edges, len(root_row), *roots, result)
    return result


def match_latest(cause_key: Key, cause_time: Picoseconds, effect_key: Key, effect_time: Picoseconds) -> Indices:
    """Return the position of the cause of each effect, int32, -1 for none.

    It is the latest cause with the effect's key that is not later than the effect; where all causes
    with that key are later, the first of them. A key is one uint64 column, or two; see `ox_latest`.
    """
    sides: list[Any] = []
    for key, time in ((cause_key, cause_time), (effect_key, effect_time)):
        first, second = key if isinstance(key, tuple) else (key, None)
        columns = (np.ascontiguousarray(column, np.uint64) for column in (first, second) if column is not None)
        sides += [len(time), *columns, *([None] if second is None else []), np.ascontiguousarray(time, np.int64)]
    partner = np.empty(len(effect_time), np.int32)
    call("ox_latest", *sides, thread_count(), partner)
    return partner


def compute_time_by_priority(
    window_index: Codes,
    priority: Codes,
    start: Picoseconds,
    end: Picoseconds,
    window_start: Picoseconds,
    window_end: Picoseconds,
    priority_count: int,
) -> Picoseconds:
    """Return the time per window and priority, int64 ps of shape (windows, priorities); see
    `ox_sweep`.
    """
    out = np.zeros((len(window_start), priority_count), np.int64)
    kinds = ((window_index, np.int32), (priority, np.uint8), (start, np.int64), (end, np.int64))
    spans = [np.ascontiguousarray(a, kind) for a, kind in kinds]
    windows = [np.ascontiguousarray(a, np.int64) for a in (window_start, window_end)]
    call("ox_sweep", len(window_index), *spans, len(window_start), *windows, priority_count, thread_count(), out)
    return out


def divide_time(start: Picoseconds, end: Picoseconds, parent: Indices, wait_mask: Mask) -> tuple[Values, Values, Values]:
    """Return (own, alone, sums), float64 ps, after dividing every moment equally among the events
    that compute in it, or among those that wait where none computes.

    own: share of each event. alone: the part of it that no other event shares. sums: time in which
    any event computes, in which exactly one computes, and of all computing events together. See
    `ox_share`.
    """
    own, alone, sums = np.empty(len(start)), np.empty(len(start)), np.empty(3)
    kinds = ((start, np.int64), (end, np.int64), (parent, np.int32), (wait_mask, np.uint8))
    call("ox_share", len(start), *(np.ascontiguousarray(a, kind) for a, kind in kinds), own, alone, sums)
    return own, alone, sums


def compute_union_length(start: Picoseconds, end: Picoseconds, begin: int, end_limit: int) -> tuple[int, int]:
    """Return (length of the union of the spans within [begin, end_limit), sum of their clipped
    lengths), ps. The spans are sorted by start; see `ox_cover`.
    """
    result = np.zeros(2, np.int64)
    spans = [np.ascontiguousarray(a, np.int64) for a in (start, end)]
    call("ox_cover", len(start), *spans, begin, end_limit, result[:1], result[1:])
    return int(result[0]), int(result[1])

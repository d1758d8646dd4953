"""Copies, memory sets and allocations on the devices."""

from __future__ import annotations

import numpy as np

from outpace.model import Table
from outpace.model.arrays import Mask
from outpace.timeline.gpu_details import CopyDetails, copy_direction, parse_copy_details
from outpace.tools.kernel_stats.device import Device
from outpace.tools.kernel_stats.schema import COPIES
from outpace.trace import dialect
from outpace.trace.algorithms import aggregate_by_key, distinct, intersect_indices

_MEMSET = "memset"
_SOURCES = {dialect.MEMCPY_DETAILS: "", dialect.MEMSET_DETAILS: _MEMSET, dialect.MEMALLOC_DETAILS: "allocation"}
_PS_PER_S = 1e12


def compute_copies(devices: list[Device]) -> Table:
    """Return `COPIES`: one row per host, device, kind of copy and kinds of memory, longest
    first.
    """
    sums: dict[tuple[str, ...], list[int]] = {}
    bandwidth: dict[tuple[str, ...], int] = {}
    for device in devices:
        bandwidth[device.device_and_host] = device.memory_bandwidth
        for stat in _SOURCES:
            _add(device, stat, sums)
        _add_bare(device, sums)
    rows = []
    for (kind, source, destination, *place), (count, size, time) in sums.items():
        rate = size * _PS_PER_S / time if size and time else np.nan
        most = bandwidth[tuple(place)]
        within = kind == "DToD" and most > 0
        rows.append((kind, source, destination, count, size, time, rate, 2 * rate / most if within else np.nan, *place))
    return Table.from_rows("copies", "Copies and memory sets", COPIES, sorted(rows, key=lambda r: (-r[5], r)))


def _add(device: Device, stat_name: str, sums: dict[tuple[str, ...], list[int]]) -> None:
    """Add a device's events that have a stat with copy details to `sums`.

    sums: [count, bytes, ps] by (kind, source, destination, device, host)
    """
    trace, stat = device.trace, device.trace.stat(stat_name)
    at, place = intersect_indices(device.program_rows, stat.rows)
    rows = device.program_rows[at]
    code, texts = stat.encode_texts(place)
    key = code * len(trace.names) + trace.name[rows]
    keys = distinct(key)
    count, total, *_ = aggregate_by_key(np.searchsorted(keys, key), len(keys), trace.duration[rows], trace.duration[rows])
    for pair, times, length in zip(keys.tolist(), count.tolist(), total.tolist(), strict=True):
        details = parse_copy_details(texts[pair // len(trace.names)])
        kind = _SOURCES[stat_name] or copy_direction(trace.names[pair % len(trace.names)], details)
        known = sums.setdefault((kind, details.source, details.destination, *device.device_and_host), [0, 0, 0])
        known[0] += times
        known[1] += times * details.bytes
        known[2] += length


def _add_bare(device: Device, sums: dict[tuple[str, ...], list[int]]) -> None:
    """Add a device's events without any details but their name to `sums`.

    These are memory sets of current CUPTI versions ("Memset 3"), for example.
    """
    rows = device.program_rows[_bare(device)]
    name = device.trace.name[rows]
    names = distinct(name)
    count, total, *_ = aggregate_by_key(
        np.searchsorted(names, name), len(names), device.trace.duration[rows], device.trace.duration[rows]
    )
    for at, times, length in zip(names.tolist(), count.tolist(), total.tolist(), strict=True):
        kind = _MEMSET if device.trace.names[at].startswith("Memset") else copy_direction(device.trace.names[at], CopyDetails())
        known = sums.setdefault((kind, "", "", *device.device_and_host), [0, 0, 0])
        known[0], known[2] = known[0] + times, known[2] + length


def _bare(device: Device) -> Mask:
    """Return which of a device's events took time, but are neither a kernel nor have copy details;
    bool, one item per row of `program_rows`.
    """
    bare = device.trace.duration[device.program_rows] > 0
    known = (device.kernel_rows, *(device.trace.stat(stat).rows for stat in _SOURCES))
    for rows in known:
        bare[intersect_indices(device.program_rows, rows)[0]] = False
    return np.asarray(bare)


def copy_time(device: Device) -> int:
    """Return the time of a device's copies and memory sets, ps: of all that keeps its streams busy
    and is no kernel.
    """
    trace = device.trace
    return int(trace.duration[device.program_rows].sum() - trace.duration[device.kernel_rows].sum())

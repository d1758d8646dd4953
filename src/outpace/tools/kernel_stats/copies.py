# SPDX-License-Identifier: Apache-2.0
"""Copies, memory sets and allocations on the devices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.model import Row, Table
from outpace.model.arrays import Codes, Indices, Mask
from outpace.timeline.gpu_details import CopyDetails, copy_direction, parse_copy_details
from outpace.tools.kernel_stats.device import Device, sum_by_code
from outpace.tools.kernel_stats.schema import COPIES
from outpace.trace import dialect
from outpace.trace.algorithms import intersect_indices

_MEMSET = "memset"
_SOURCES = {dialect.MEMCPY_DETAILS: "", dialect.MEMSET_DETAILS: _MEMSET, dialect.MEMALLOC_DETAILS: "allocation"}
_PS_PER_S = 1e12


def compute_copies(devices: list[Device]) -> Table:
    """Return `COPIES`: one row per host, device, kind of copy and kinds of memory, longest
    first.
    """
    rows = COPIES.sum_rows(row for device in devices for row in _rows(device))
    bandwidth = {tuple(device.place.values()): device.memory_bandwidth for device in devices}
    for row in rows:
        rate = row["bytes"] * _PS_PER_S / row["total_ps"] if row["bytes"] and row["total_ps"] else np.nan
        most = bandwidth[row["device"], row["host"]]
        row |= {"bandwidth": rate, "memory_fraction": 2 * rate / most if row["kind"] == "DToD" and most > 0 else np.nan}
    order = ("kind", "source", "destination", "occurrences", "bytes", "device", "host")
    return COPIES.build(sorted(rows, key=lambda row: (-row["total_ps"], *(row[name] for name in order))))


def _rows(device: Device) -> Iterator[Row]:
    """Yield rows of `COPIES` for a device's events, without the columns that follow from sums."""
    names = device.trace.names
    for stat_name, source_kind in _SOURCES.items():
        stat = device.trace.stat(stat_name)
        at, place = intersect_indices(device.program_rows, stat.rows)
        code, texts = stat.encode_texts(place)
        for name, text, count, time in _sums(device, device.program_rows[at], code):
            details = parse_copy_details(texts[text])
            kind = source_kind or copy_direction(names[name], details)
            yield _row(device, kind, details, count, time)
    rows = device.program_rows[_undescribed_mask(device)]
    for name, _, count, time in _sums(device, rows, np.zeros(len(rows), np.int64)):
        # Memory sets of current CUPTI versions ("Memset 3") have no details but their name.
        kind = _MEMSET if names[name].startswith("Memset") else copy_direction(names[name], CopyDetails())
        yield _row(device, kind, CopyDetails(), count, time)


def _row(device: Device, kind: str, details: CopyDetails, count: int, time: int) -> Row:
    ends = {"kind": kind, "source": details.source, "destination": details.destination}
    return {**ends, "occurrences": count, "bytes": count * details.bytes, "total_ps": time, **device.place}


def _sums(device: Device, rows: Indices, text: Codes) -> Iterator[tuple[int, int, int, int]]:
    """Yield (name, text, number of events, time) for the events of each name and text."""
    names = len(device.trace.names)
    for pair, count, time in sum_by_code(text * names + device.trace.name[rows], device.trace.duration[rows]):
        yield pair % names, pair // names, count, time


def _undescribed_mask(device: Device) -> Mask:
    """Return which of a device's events took time, but are neither a kernel nor have copy details;
    bool, one item per row of `program_rows`.
    """
    bare = device.trace.duration[device.program_rows] > 0
    row_sets = (device.kernel_rows, *(device.trace.stat(stat).rows for stat in _SOURCES))
    for rows in row_sets:
        bare[intersect_indices(device.program_rows, rows)[0]] = False
    return np.asarray(bare)


def copy_time(device: Device) -> int:
    """Return the time of a device's copies and memory sets, ps: of all that keeps its streams busy
    and is no kernel.
    """
    trace = device.trace
    return int(trace.duration[device.program_rows].sum() - trace.duration[device.kernel_rows].sum())

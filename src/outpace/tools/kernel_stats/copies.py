"""Copies, memory sets and allocations of the devices."""

from __future__ import annotations

import numpy as np

from outpace.model import Table
from outpace.model.arrays import Indices
from outpace.timeline import parse_op
from outpace.timeline.gpu_details import CopyDetails, parse_copy
from outpace.tools.kernel_stats.collect import Device
from outpace.tools.kernel_stats.schema import COPIES
from outpace.trace import dialect
from outpace.trace.algorithms import common, distinct, group

_SOURCES = {dialect.MEMCPY_DETAILS: "", dialect.MEMSET_DETAILS: "memset", dialect.MEMALLOC_DETAILS: "allocation"}
_MADE_OF_HOST = ("pageable", "pinned", "host")
_PS_PER_S = 1e12


def copies(found: list[Device]) -> Table:
    """One row per host, device, kind and kinds of memory; longest first."""
    sums: dict[tuple[str, ...], list[int]] = {}
    bandwidth: dict[tuple[str, ...], int] = {}
    for device in found:
        bandwidth[device.place] = device.memory_bandwidth
        for stat in _SOURCES:
            _add(device, stat, sums)
    rows = []
    for (kind, source, destination, *place), (count, size, time) in sums.items():
        rate = size * _PS_PER_S / time if size and time else np.nan
        most = bandwidth[tuple(place)]
        within = kind == "DToD" and most > 0
        rows.append((kind, source, destination, count, size, time, rate, 2 * rate / most if within else np.nan, *place))
    return Table.from_rows("copies", "Copies and memory sets", COPIES, sorted(rows, key=lambda r: (-r[5], r)))


def _add(device: Device, stat_name: str, sums: dict[tuple[str, ...], list[int]]) -> None:
    trace, stat = device.trace, device.trace.stat(stat_name)
    at, place = common(device.rows, stat.row)
    rows = device.rows[at]
    code, texts = stat.codes(place)
    key = code * len(trace.names) + trace.name[rows]
    keys = distinct(key)
    count, total, *_ = group(np.searchsorted(keys, key), len(keys), trace.duration[rows], trace.duration[rows])
    for pair, times, length in zip(keys.tolist(), count.tolist(), total.tolist(), strict=True):
        details = parse_copy(texts[pair // len(trace.names)])
        kind = _SOURCES[stat_name] or kind_of(trace.names[pair % len(trace.names)], details)
        known = sums.setdefault((kind, details.source, details.destination, *device.place), [0, 0, 0])
        known[0] += times
        known[1] += times * details.bytes
        known[2] += length


def kind_of(name: str, details: CopyDetails) -> str:
    """Direction of a copy: from its event's name (`MemcpyH2D`), or from the kinds of memory; "other" when neither tells."""
    op = parse_op(name).type
    if op.startswith("Memcpy"):
        return op.removeprefix("Memcpy")
    if name.lower().startswith(("memcpyp2p", "memcpyptop")):
        return "PToP"
    if not details.source or not details.destination:
        return "other"
    return "To".join("H" if kind in _MADE_OF_HOST else "D" for kind in (details.source, details.destination))


def copy_time(device: Device) -> int:
    """Time of a device's copies and memory sets together, ps."""
    trace = device.trace
    parts: list[Indices] = [common(device.rows, trace.stat(s).row)[0] for s in (dialect.MEMCPY_DETAILS, dialect.MEMSET_DETAILS)]
    return int(sum(trace.duration[device.rows[at]].sum() for at in parts))

# SPDX-License-Identifier: Apache-2.0
"""The kernel table, with the time of each pair of kernel and op, and tables derived from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.call_tree import build_call_tree
from outpace.metrics.facts.op_metrics import device_op_names, parse_device_op
from outpace.metrics.kernel_names import kernel_function_name
from outpace.metrics.op_scopes import parse_scopes, scope_pattern
from outpace.metrics.slices import top_slices
from outpace.model import Table
from outpace.model.arrays import Codes, Mask, Values
from outpace.timeline.command_buffers import compute_hlo_op_stat, is_named_after
from outpace.timeline.gpu_details import KernelDetails
from outpace.timeline.hlo.modules import load_hlo_ops
from outpace.tools.kernel_stats.device import Device, sum_by_code
from outpace.tools.kernel_stats.launches import find_launch_rows, launch_latency
from outpace.tools.kernel_stats.occupancy import occupancy
from outpace.tools.kernel_stats.schema import AUTOTUNING, KERNELS, SHARES, TREE
from outpace.tools.kernel_stats.tensor_cores import (
    can_use_tensor_cores,
    parse_equation,
    program_uses_tensor_cores,
    uses_tensor_cores,
)
from outpace.trace import dialect
from outpace.trace.algorithms import aggregate_by_key, distinct, intersect_indices

RECORDED, COMPUTED, UNKNOWN = "recorded", "computed", "unknown"
BY_FUNCTION = "function"  # grouping by function name: kernels that differ only in types are merged
_PROGRAM = "XlaModule"  # op name of a compiled program as a whole: no op of the framework


@dataclass(frozen=True, eq=False)
class _Ops:
    """The op of every kernel of a device.

    names: names of ops
    index: index into `names`, one item per kernel
    eligible: whether the op could use tensor cores, by its name or equation; one item per kernel
    used: whether the kernel uses tensor cores; one item per kernel
    """

    names: tuple[str, ...]
    index: Codes
    eligible: Mask
    used: Mask


def compute_kernels(devices: list[Device]) -> Table:
    """Return `KERNELS`: one row per host, device and kernel-op pair, longest first; none is left
    out.

    A pair is defined as in the reference (`kernel_stats_utils.cc`): kernel, launch dimensions,
    registers, shared memory, whether tensor cores are used, whether the op is eligible, and op.
    Rows of equal time are ordered by kernel, grid, block, op, device and host.
    """
    rows = [row for device in devices for row in _device_rows(device)]
    rows.sort(key=lambda r: (-r["total_ps"], r["kernel"], r["grid"], r["block"], r["op"], r["device"], r["host"]))
    whole = sum(r["total_ps"] for r in rows)
    for rank, row in enumerate(rows, start=1):
        row["rank"] = rank
        row["kernel_fraction"] = row["total_ps"] / whole
    return KERNELS.build(rows)


def compute_autotuning(devices: list[Device]) -> Table:
    """Return `AUTOTUNING`: what devices ran for the compiler, longest first."""
    rows = (
        AUTOTUNING.row(device.place, kernel=kernel_function_name(device.trace.names[name]), occurrences=count, total_ps=total)
        for device in devices
        for name, count, total in sum_by_code(
            device.trace.name[device.autotuning_rows], device.trace.duration[device.autotuning_rows]
        )
    )
    return AUTOTUNING.build(AUTOTUNING.sum_rows(rows)).sort_by("total_ps")


def compute_kernel_shares(kernels: Table) -> Table:
    """Return `SHARES`: kernel time by the kernels' function names, by layer, and by the kernels'
    full names.

    Each grouping has the ten longest items, and the rest as one.
    """
    ways = {
        BY_FUNCTION: kernels["function"].tolist(),
        "layer": [scope_pattern(op) for op in kernels["op"].tolist()],
        "kernel": kernels["kernel"].tolist(),
    }
    return SHARES.build(
        {"by": way, "kernel": name, "total_ps": size}
        for way, names in ways.items()
        for name, size in top_slices(names, kernels["total_ps"].tolist())
    )


def compute_kernel_tree(kernels: Table) -> Table:
    """Return the kernel time by name scope, op and kernel, summed over devices.

    kernels: table that `compute_kernels` returns
    """
    rows = zip(*(kernels[name].tolist() for name in ("op", "function", "total_ps", "occurrences")), strict=True)
    paths = (
        ((*parse_scopes(op), *([op.rpartition("/")[2]] if op else []), function), total, count)
        for op, function, total, count in rows
    )
    return build_call_tree(TREE, paths)


def _device_rows(device: Device) -> Iterator[dict[str, Any]]:
    """Yield rows of `KERNELS` for one device, as dictionaries by column."""
    trace, rows = device.trace, device.kernel_rows
    if len(rows) == 0:
        return
    identities: dict[tuple[object, ...], int] = {}
    launch = np.array([identities.setdefault(d.launch_key, len(identities)) for d in device.details], np.int64)[
        device.detail_index
    ]
    name, ops = trace.name[rows].astype(np.int64), _ops(device)
    key = ((name * len(identities) + launch) * len(ops.names) + ops.index) * 4 + 2 * ops.eligible + ops.used
    keys = distinct(key)
    member = np.searchsorted(keys, key)
    duration = trace.duration[rows]
    count, total, _, low, high = aggregate_by_key(member, len(keys), duration, duration)
    first = np.full(len(keys), len(rows), np.int64)
    np.minimum.at(first, member, np.arange(len(rows)))
    latency = _means(launch_latency(device, rows, find_launch_rows(device, rows)), member, len(keys))
    hlo = _longest_hlo(device, member, len(keys))
    for i, kernel in enumerate(first.tolist()):
        details = device.details[int(device.detail_index[kernel])]
        kernel_name, op = trace.names[int(name[kernel])], ops.names[int(ops.index[kernel])]
        yield {
            "kernel": kernel_name,
            "function": kernel_function_name(kernel_name),
            **_launch(details, device.capability),
            "eligible": bool(ops.eligible[kernel]),
            "tensor_cores": bool(ops.used[kernel]),
            "op": op,
            "hlo_op": hlo[i],
            "occurrences": int(count[i]),
            "total_ps": int(total[i]),
            "mean_ps": int(total[i]) / int(count[i]),
            "min_ps": int(low[i]),
            "max_ps": int(high[i]),
            "mean_latency_ps": float(latency[i]),
            **device.place,
        }


def _launch(details: KernelDetails, capability: tuple[int, int]) -> dict[str, Any]:
    """Return the columns that describe how a kernel was launched."""
    computed = occupancy(details, capability) if details.occupancy is None else None
    share = computed if details.occupancy is None else details.occupancy
    return {
        "registers": _or_missing(details.registers),
        "shared_bytes": _or_missing(details.shared),
        "static_bytes": _or_missing(details.static_shared),
        "dynamic_bytes": _or_missing(details.dynamic_shared),
        "block": ",".join(map(str, details.block)),
        "grid": ",".join(map(str, details.grid)),
        "occupancy": _or_missing(share),
        "occupancy_source": RECORDED if details.occupancy is not None else UNKNOWN if computed is None else COMPUTED,
    }


def _or_missing(value: float | None) -> float:
    """Return a number as a float; NaN for None."""
    return float("nan") if value is None else float(value)


def _ops(device: Device) -> _Ops:
    """Return the op of every kernel of a device, and the use of tensor cores."""
    trace, rows = device.trace, device.kernel_rows
    code, texts = device_op_names(device.timeline, rows)
    names: dict[str, int] = {}
    index = np.empty(len(texts), np.int64)
    eligible = np.zeros(len(texts), bool)
    for i, text in enumerate(texts):
        op = parse_device_op(text)[1] if text else ""
        index[i] = names.setdefault("" if op == _PROGRAM else op, len(names))
        eligible[i] = can_use_tensor_cores(op, parse_equation(text))
    able = eligible[code]
    at, place = intersect_indices(rows, trace.stat(dialect.EQUATION).rows)
    equation, equations = trace.stat(dialect.EQUATION).encode_texts(place)
    able[at] |= np.fromiter((can_use_tensor_cores("", e) for e in equations), bool, len(equations))[equation]
    kernels = distinct(trace.name[rows])
    used = np.fromiter((uses_tensor_cores(trace.names[n], device.is_amd) for n in kernels.tolist()), bool, len(kernels))
    used = used[np.searchsorted(kernels, trace.name[rows])] | _use_by_program(device)
    return _Ops(tuple(names), index[code], (able | used) & (code > 0), used)


def _use_by_program(device: Device) -> Mask:
    """Return whether each kernel that XLA generated uses tensor cores, as far as the programs in
    the profile show; bool, one item per kernel.
    """
    trace, rows = device.trace, device.kernel_rows
    number, ops = load_hlo_ops(device.timeline, rows)
    instruction = compute_hlo_op_stat(device.timeline)
    at, place = intersect_indices(rows, instruction.rows)
    code, texts = instruction.encode_texts(place)
    called = dict(zip(number[at].tolist(), code.tolist(), strict=True))
    key = number * len(trace.names) + trace.name[rows]
    keys = distinct(key)
    pairs = (divmod(k, len(trace.names)) for k in keys.tolist())
    uses = [
        of in called
        and is_named_after(trace.names[name], texts[called[of]])
        and program_uses_tensor_cores(trace.names[name], ops[of], device.capability)
        for of, name in pairs
    ]
    return np.array(uses, bool)[np.searchsorted(keys, key)]


def _means(values: Values, member: Codes, groups: int) -> Values:
    """Return the mean of the known values of each group; NaN for a group without any.

    values: float64, NaN where not known
    member: group of each value
    groups: number of groups
    """
    is_known = ~np.isnan(values)
    sums = np.bincount(member[is_known], values[is_known], groups)
    counts = np.bincount(member[is_known], minlength=groups)
    means: Values = np.divide(sums, counts, out=np.full(groups, np.nan), where=counts > 0)
    return means


def _longest_hlo(device: Device, member: Codes, groups: int) -> list[str]:
    """Return for each group of kernels the HLO instruction with the most time; "" without one."""
    trace, rows, longest = device.trace, device.kernel_rows, [""] * groups
    stat = compute_hlo_op_stat(device.timeline)
    at, place = intersect_indices(rows, stat.rows)
    code, texts = stat.encode_texts(place)
    if len(at) == 0:
        return longest
    key = member[at] * len(texts) + code
    keys = distinct(key)
    duration = trace.duration[rows[at]]
    _, total, *_ = aggregate_by_key(np.searchsorted(keys, key), len(keys), duration, duration)
    for i in np.argsort(total, kind="stable").tolist():  # ascending by time: the longest overwrites the others
        longest[int(keys[i]) // len(texts)] = texts[int(keys[i]) % len(texts)]
    return longest

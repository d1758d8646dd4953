"""The kernel table: time per kernel-op pair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.call_tree import call_tree
from outpace.metrics.model.kernel_names import function_name
from outpace.metrics.model.op_metrics import device_op, op_texts
from outpace.metrics.model.op_scopes import kind_of_scope, scope_of
from outpace.metrics.slices import slices
from outpace.model import Table
from outpace.model.arrays import Codes, Mask, Values
from outpace.timeline.command_buffers import called_after, hlo_ops
from outpace.timeline.gpu_details import KernelDetails
from outpace.timeline.hlo import instructions
from outpace.tools.kernel_stats.collect import Device
from outpace.tools.kernel_stats.launches import latencies, launch_rows
from outpace.tools.kernel_stats.occupancy import occupancy
from outpace.tools.kernel_stats.schema import KERNELS, SLICES, TREE, TUNING
from outpace.tools.kernel_stats.tensor_cores import by_program, equation_of, is_eligible, uses_tensor_cores
from outpace.trace import dialect
from outpace.trace.algorithms import common, distinct, group

RECORDED, COMPUTED, UNKNOWN = "recorded", "computed", "unknown"
FUNCTION = "function"  # of one kernel's own name: kernels that differ in types are one
_PROGRAM = "XlaModule"  # what a compiled program calls itself: no op of the framework


@dataclass(frozen=True, eq=False)
class _Ops:
    """The op of every kernel: index into `names`, and whether it could use tensor cores by its name or equation; whether the kernel does."""

    names: tuple[str, ...]
    index: Codes
    eligible: Mask
    used: Mask


def kernels(found: list[Device]) -> Table:
    """One row per host, device and kernel-op pair, longest first; none is left out.

    A pair is the reference's (`kernel_stats_utils.cc`): kernel, launch dimensions, registers, shared memory, tensor cores used, op
    eligible, and op. Rows of equal time are in the order of these.
    """
    rows = [row for device in found for row in _device_rows(device)]
    rows.sort(key=lambda r: (-r["total_ps"], r["kernel"], r["grid"], r["block"], r["op"], r["device"], r["host"]))
    whole = sum(r["total_ps"] for r in rows)
    for rank, row in enumerate(rows, start=1):
        row["rank"] = rank
        row["kernel_fraction"] = row["total_ps"] / whole
    return Table.build("kernels", "Kernels", KERNELS, {f.name: [r[f.name] for r in rows] for f in KERNELS})


def tuning(found: list[Device]) -> Table:
    """`TUNING`: what devices did for the compiler, longest first."""
    rows = []
    for device in found:
        trace, done = device.trace, device.tuning
        names = distinct(trace.name[done])
        count, total, *_ = group(
            np.searchsorted(names, trace.name[done]), len(names), trace.duration[done], trace.duration[done]
        )
        named = (function_name(trace.names[name]) for name in names.tolist())
        rows += [(*row, *device.place) for row in zip(named, count.tolist(), total.tolist(), strict=True)]
    sums: dict[tuple[str, ...], list[int]] = {}
    for kernel, times, time, *place in rows:
        known = sums.setdefault((kernel, *place), [0, 0])
        known[:] = [known[0] + times, known[1] + time]
    merged = [(kernel, *numbers, *place) for (kernel, *place), numbers in sums.items()]
    return Table.from_rows("tuning", "What the compiler ran", TUNING, merged).sorted_by("total_ps")


def kernel_slices(table: Table) -> Table:
    """`SLICES`: time by the kernels' own names, by layer, and by their whole names: the ten longest of each, and the rest as one."""
    times = table["total_ps"].tolist()
    ways = {
        FUNCTION: table["function"].tolist(),
        "layer": [kind_of_scope(op) for op in table["op"].tolist()],
        "kernel": table["kernel"].tolist(),
    }
    rows = []
    for way, names in ways.items():
        sums: dict[str, int] = {}
        for name, total in zip(names, times, strict=True):
            sums[name] = sums.get(name, 0) + total
        rows += [(way, name, size) for name, size in slices(sums)]
    return Table.from_rows("kernel_slices", "Kernel time", SLICES, rows)


def kernel_tree(table: Table) -> Table:
    """Time of kernels by name scope, op and kernel, summed over devices; `table` is that of `kernels`."""
    rows = zip(*(table[name].tolist() for name in ("op", "function", "total_ps", "occurrences")), strict=True)
    paths = (
        ((*scope_of(op), *([op.rpartition("/")[2]] if op else []), function), total, count)
        for op, function, total, count in rows
    )
    return call_tree("kernel_tree", "Kernel time by scope, op and kernel", TREE, paths)


def _device_rows(device: Device) -> Iterator[dict[str, Any]]:
    trace, rows = device.trace, device.kernels
    if len(rows) == 0:
        return
    identities: dict[tuple[object, ...], int] = {}
    launch = np.array([identities.setdefault(d.identity, len(identities)) for d in device.details], np.int64)[device.detail]
    name, ops = trace.name[rows].astype(np.int64), _ops(device)
    key = ((name * len(identities) + launch) * len(ops.names) + ops.index) * 4 + 2 * ops.eligible + ops.used
    keys = distinct(key)
    member = np.searchsorted(keys, key)
    duration = trace.duration[rows]
    count, total, _, low, high = group(member, len(keys), duration, duration)
    first = np.full(len(keys), len(rows), np.int64)
    np.minimum.at(first, member, np.arange(len(rows)))
    latency = _means(latencies(device, rows, launch_rows(device, rows)), member, len(keys))
    hlo = _longest_hlo(device, member, len(keys))
    for i, kernel in enumerate(first.tolist()):
        details = device.details[int(device.detail[kernel])]
        kernel_name, op = trace.names[int(name[kernel])], ops.names[int(ops.index[kernel])]
        yield {
            "kernel": kernel_name,
            "function": function_name(kernel_name),
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
            "device": device.place[0],
            "host": device.place[1],
        }


def _launch(details: KernelDetails, capability: tuple[int, int]) -> dict[str, Any]:
    """The columns that say how a kernel was launched."""
    computed = occupancy(details, capability) if details.occupancy is None else None
    share = computed if details.occupancy is None else details.occupancy
    return {
        "registers": _or_missing(details.registers),
        "shared_bytes": _or_missing(details.shared),
        "static_bytes": _or_missing(details.static),
        "dynamic_bytes": _or_missing(details.dynamic),
        "block": ",".join(map(str, details.block)),
        "grid": ",".join(map(str, details.grid)),
        "occupancy": _or_missing(share),
        "occupancy_source": RECORDED if details.occupancy is not None else UNKNOWN if computed is None else COMPUTED,
    }


def _or_missing(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _ops(device: Device) -> _Ops:
    trace, rows = device.trace, device.kernels
    code, texts = op_texts(device.timeline, rows)
    names: dict[str, int] = {}
    index = np.empty(len(texts), np.int64)
    eligible = np.zeros(len(texts), bool)
    for i, text in enumerate(texts):
        op = device_op(text)[1] if text else ""
        index[i] = names.setdefault("" if op == _PROGRAM else op, len(names))
        eligible[i] = is_eligible(op, equation_of(text))
    able = eligible[code]
    at, place = common(rows, trace.stat(dialect.EQUATION).row)
    equation, equations = trace.stat(dialect.EQUATION).codes(place)
    able[at] |= np.fromiter((is_eligible("", e) for e in equations), bool, len(equations))[equation]
    kernels = distinct(trace.name[rows])
    used = np.fromiter((uses_tensor_cores(trace.names[n], device.amd) for n in kernels.tolist()), bool, len(kernels))
    used = used[np.searchsorted(kernels, trace.name[rows])] | _by_programs(device)
    return _Ops(tuple(names), index[code], (able | used) & (code > 0), used)


def _by_programs(device: Device) -> Mask:
    """Whether each kernel that XLA made itself uses tensor cores, as far as the programs in the profile tell."""
    trace, rows = device.trace, device.kernels
    number, ops = instructions(device.timeline, rows)
    instruction = hlo_ops(device.timeline)
    at, place = common(rows, instruction.row)
    code, texts = instruction.codes(place)
    called = dict(zip(number[at].tolist(), code.tolist(), strict=True))
    key = number * len(trace.names) + trace.name[rows]
    keys = distinct(key)
    told = (divmod(k, len(trace.names)) for k in keys.tolist())
    uses = [
        of in called
        and called_after(trace.names[name], texts[called[of]])
        and by_program(trace.names[name], ops[of], device.capability)
        for of, name in told
    ]
    return np.array(uses, bool)[np.searchsorted(keys, key)]


def _means(values: Values, member: Codes, groups: int) -> Values:
    """Mean of the known values of each group; NaN for a group without any."""
    known = ~np.isnan(values)
    sums = np.bincount(member[known], values[known], groups)
    counts = np.bincount(member[known], minlength=groups)
    means: Values = np.divide(sums, counts, out=np.full(groups, np.nan), where=counts > 0)
    return means


def _longest_hlo(device: Device, member: Codes, groups: int) -> list[str]:
    """For each group, the instruction of the compiled program with the most time."""
    trace, rows, found = device.trace, device.kernels, [""] * groups
    stat = hlo_ops(device.timeline)
    at, place = common(rows, stat.row)
    code, texts = stat.codes(place)
    if len(at) == 0:
        return found
    key = member[at] * len(texts) + code
    keys = distinct(key)
    duration = trace.duration[rows[at]]
    _, total, *_ = group(np.searchsorted(keys, key), len(keys), duration, duration)
    for i in np.argsort(total, kind="stable").tolist():  # the longest is written last
        found[int(keys[i]) // len(texts)] = texts[int(keys[i]) % len(texts)]
    return found

# SPDX-License-Identifier: Apache-2.0
"""Roofs of compiled ops: the time that a device needs at least for an op's operations and bytes,
and how much longer the op took.

The model is the roofline of Williams, Waterman and Patterson (2009): an op can be no faster than
its operations at the peak of the units that compute them, nor than its bytes at the memory's
bandwidth. No kernel of a GPU is faster than its start, so that is a roof, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from outpace._dataclass import dataclass
from outpace.metrics.facts.device_peaks import (
    BITS_16,
    FLOAT32,
    FLOAT64,
    TENSOR_FLOAT32,
    Precision,
    memory_bandwidth,
    peak_flops,
)
from outpace.timeline.hlo.ops import HloOp
from outpace.timeline.hlo.precision import DOUBLE, HALF
from outpace.trace import Plane, dialect

_OVER = 1.05  # share of the memory's bandwidth above which arrays must come from a cache
_IMPOSSIBLE = 50.0  # times the memory's bandwidth that no cache reaches: an op that moved less than its shapes say
_START_PS = 5e6  # time of a GPU's kernel that does little, with its start
_SHORT = 2.0  # times the start, up to which an op is bound by it
_PS = 1e12  # picoseconds in a second
_COMPLEX = 4  # multiply-adds of real numbers that one of complex numbers takes; XLA's count, and so ours, has one
_VECTOR = {HALF: FLOAT32, DOUBLE: FLOAT64}  # precision of element-wise arithmetic, else FLOAT32
_COLLECTIVES = ("all-", "reduce-scatter", "collective", "ragged-all-to-all", "send", "recv")


class Bound(str, Enum):
    """What bounds the time of an op."""

    COMPUTE = "compute"
    MEMORY = "memory"
    CACHE = "cache"
    START = "start"
    TRANSFER = "transfer"
    NEITHER = "neither"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Roof:
    """How near executions of an op came to what the device can do.

    bound: what bounds them: arithmetic or memory (at least 30 % of its peak), a cache (faster than
        the memory), the start of a kernel, a transfer, or neither: the op could be faster.
    share: least possible time as a share of the time that they took; 0 where unknown.
    above_ps: time above the roof, of all executions, ps; 0 where unknown.
    """

    bound: Bound
    share: float
    above_ps: float


NEAR_ROOF = 0.30
"""Share of a roof from which an op counts as bound by it."""
NO_ROOF_BOUNDS = (Bound.UNKNOWN.value, Bound.TRANSFER.value)
"""Values of `Bound` of ops that have no roof."""

NO_ROOF = Roof(Bound.UNKNOWN, 0.0, 0.0)
"""Roof of an op whose cost, or whose device's peaks, are not known."""


@dataclass(frozen=True)
class DeviceRoofs:
    """What a device can do at most.

    flops: operations per second by precision; 0 where unknown.
    bandwidth: bytes of memory per second; 0 where unknown.
    start_ps: least time of one execution, ps.
    """

    flops: dict[Precision, float]
    bandwidth: float
    start_ps: float


def device_roofs(plane: Plane) -> DeviceRoofs:
    """Return the roofs of a device by its plane."""
    precisions: tuple[Precision, ...] = (FLOAT64, FLOAT32, TENSOR_FLOAT32, BITS_16)
    is_gpu = plane.name.startswith(dialect.GPU_PREFIX)
    return DeviceRoofs({p: peak_flops(plane, p) for p in precisions}, memory_bandwidth(plane), _START_PS if is_gpu else 0.0)


def host_roofs(record: Mapping[str, Any]) -> DeviceRoofs | None:
    """Return the roofs of a host's processor, all of its cores together, by the capture's record;
    None where `outpace doctor --peaks` had not measured them.
    """
    peaks = record.get("cpu_peaks") or {}
    single, double, copy = (_positive(peaks.get(name)) for name in ("float32", "float64", "copy"))
    if not single or not copy:
        return None
    return DeviceRoofs({FLOAT64: double, FLOAT32: single, TENSOR_FLOAT32: single, BITS_16: single}, copy, 0.0)


def _positive(value: object) -> float:
    """Return a number above 0 of a record, which may be damaged; else 0."""
    return float(value) if isinstance(value, (int, float)) and 0 < value < float("inf") else 0.0


def op_roof(op: HloOp, count: float, time_ps: float, roofs: DeviceRoofs) -> Roof:
    """Return the roof of `count` executions of an op that took `time_ps` together."""
    if op.transfer or op.opcode.endswith(("-start", "-done")) or op.opcode.startswith(_COLLECTIVES):
        return Roof(Bound.TRANSFER, 0.0, 0.0)
    least = _least_times(op, roofs)
    if least is None or time_ps <= 0 or count <= 0:
        return NO_ROOF
    compute, memory, start = (count * time / time_ps for time in least)
    if memory > _IMPOSSIBLE:
        return NO_ROOF
    share = max(compute, memory, start)
    return Roof(_find_bound(compute, memory, start), min(share, 1.0), max(0.0, 1.0 - share) * time_ps)


def least_time(op: HloOp, roofs: DeviceRoofs) -> float:
    """Return the least time of one execution of an op, ps; NaN where it is not known."""
    return max(_least_times(op, roofs) or (float("nan"),))


def _least_times(op: HloOp, roofs: DeviceRoofs) -> tuple[float, float, float] | None:
    """Return the least times of one execution for an op's arithmetic, its memory traffic and its
    start, ps; None where its cost or the device's bandwidth is not known.
    """
    if op.is_control:
        return 0.0, 0.0, 0.0
    if not op.opcode or not op.cost.is_complete or not roofs.bandwidth:
        return None
    return _compute_seconds(op, roofs) * _PS, op.cost.bytes / roofs.bandwidth * _PS, roofs.start_ps


def _find_bound(compute: float, memory: float, start: float) -> Bound:
    """Return the bound of an op, by the shares of its time that each roof takes."""
    if max(compute, memory) < NEAR_ROOF:
        return Bound.START if start >= 1 / _SHORT else Bound.NEITHER
    if compute >= memory:
        return Bound.COMPUTE
    return Bound.CACHE if memory > _OVER else Bound.MEMORY


def _compute_seconds(op: HloOp, roofs: DeviceRoofs) -> float:
    """Return the least time of an op's arithmetic; 0 where the peaks are not known."""
    vector = roofs.flops[_VECTOR.get(op.precision_bits, FLOAT32)]
    others = op.cost.flops - op.cost.product_flops
    return product_seconds(op, roofs) + (others / vector if vector else 0.0)


def product_seconds(op: HloOp, roofs: DeviceRoofs) -> float:
    """Return the least time of the matrix products and convolutions of one execution of an op; 0
    where the device's peak is not known.
    """
    peak = roofs.flops[_product_precision(op)]
    flops = op.cost.product_flops * (_COMPLEX if op.is_complex else 1)
    return flops / peak if peak else 0.0


def _product_precision(op: HloOp) -> Precision:
    """Return the precision in which a device multiplies matrices fastest for an op."""
    if op.precision_bits == HALF:
        return BITS_16
    if op.precision_bits == DOUBLE:
        return FLOAT64
    return FLOAT32 if op.is_highest_precision else TENSOR_FLOAT32

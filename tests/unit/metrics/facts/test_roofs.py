"""How far above its roof an op is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from outpace.metrics.facts.device_peaks import BITS_16, FLOAT32, FLOAT64, TENSOR_FLOAT32
from outpace.metrics.facts.roofs import NO_ROOF, Bound, DeviceRoofs, host_roofs, least_time, op_roof, product_seconds
from outpace.timeline.hlo.cost import NO_COST, UNKNOWN_COST, Cost, product_cost
from outpace.timeline.hlo.ops import HloOp

US = 1e6  # ps
GPU = DeviceRoofs({FLOAT64: 1e12, FLOAT32: 4e12, TENSOR_FLOAT32: 2e13, BITS_16: 4e13}, 1e12, 5 * US)


def op(cost: Cost, bits: int = 32, opcode: str = "fusion", *, is_highest_precision: bool = False) -> HloOp:
    return HloOp(opcode, precision_bits=bits, cost=cost, is_highest_precision=is_highest_precision)


@pytest.mark.parametrize(
    ("cost", "took_us", "bound", "share"),
    [
        (product_cost(2e9), 100, Bound.COMPUTE, 1.0),
        (product_cost(2e9), 200, Bound.COMPUTE, 0.5),
        (product_cost(2e9), 400, Bound.NEITHER, 0.25),
        (Cost(bytes=1e8), 200, Bound.MEMORY, 0.5),
        (Cost(bytes=1e8), 50, Bound.CACHE, 1.0),
        (Cost(4e8, bytes=1e8), 200, Bound.COMPUTE, 0.5),
        (Cost(bytes=1e5), 8, Bound.START, 5 / 8),
        (Cost(bytes=1e5), 50, Bound.NEITHER, 0.1),
        (NO_COST, 6, Bound.START, 5 / 6),
    ],
)
def test_the_highest_roof_counts(cost: Cost, took_us: float, bound: Bound, share: float) -> None:
    """Products at their peak, other arithmetic at that of vectors, memory, and a kernel's start."""
    roof = op_roof(op(cost), 10, 10 * took_us * US, GPU)
    assert roof.bound is bound
    assert roof.share == pytest.approx(share)
    assert roof.above_ps == pytest.approx((1 - share) * 10 * took_us * US)


@pytest.mark.parametrize(
    ("bits", "highest", "peak"), [(16, False, 4e13), (32, False, 2e13), (32, True, 4e12), (64, False, 1e12), (0, False, 2e13)]
)
def test_products_are_held_against_the_peak_of_their_precision(bits: int, highest: bool, peak: float) -> None:
    product = op(product_cost(1e9), bits, is_highest_precision=highest)
    assert product_seconds(product, GPU) == pytest.approx(1e9 / peak)


@pytest.mark.parametrize("opcode", ["while", "conditional", "call"])
def test_what_only_runs_others_needs_nothing(opcode: str) -> None:
    """Its own time is what starting them takes."""
    roof = op_roof(op(UNKNOWN_COST, opcode=opcode), 10, 1000 * US, GPU)
    assert roof.bound is Bound.NEITHER and roof.above_ps == 1000 * US
    assert least_time(op(UNKNOWN_COST, opcode=opcode), GPU) == 0


def test_the_least_time_is_that_of_the_highest_roof() -> None:
    assert least_time(op(Cost(bytes=1e8)), GPU) == pytest.approx(100 * US)
    assert least_time(op(Cost(bytes=1)), GPU) == 5 * US
    assert math.isnan(least_time(op(UNKNOWN_COST), GPU))


def test_a_rate_that_no_cache_reaches_is_no_rate() -> None:
    """A scatter in place writes its updates alone."""
    assert op_roof(op(Cost(bytes=1e9)), 1, 21 * US, GPU).bound is Bound.CACHE
    assert op_roof(op(Cost(bytes=1e9)), 1, 19 * US, GPU) == NO_ROOF


def test_complex_products_take_four_multiply_adds_each() -> None:
    real = op(product_cost(1e9))
    assert product_seconds(replace(real, is_complex=True), GPU) == pytest.approx(4 * product_seconds(real, GPU))


def test_what_is_not_known_has_no_roof() -> None:
    known = op(product_cost(1e9))
    assert op_roof(op(UNKNOWN_COST), 1, US, GPU) == NO_ROOF
    assert op_roof(HloOp(""), 1, US, GPU) == NO_ROOF
    assert op_roof(known, 0, US, GPU) == op_roof(known, 1, 0, GPU) == NO_ROOF
    assert op_roof(known, 1, US, DeviceRoofs(GPU.flops, 0.0, 0.0)) == NO_ROOF


@pytest.mark.parametrize("opcode", ["all-reduce", "copy-start", "all-gather-done", "collective-permute", "send"])
def test_transfers_are_above_no_roof(opcode: str) -> None:
    """They wait for others, and the speed of what connects devices is not in the profile."""
    roof = op_roof(op(Cost(bytes=1e3), opcode=opcode), 1, 1e12, GPU)
    assert (roof.bound, roof.above_ps) == (Bound.TRANSFER, 0.0)


def test_a_processor_has_the_roofs_that_were_measured() -> None:
    """float64 at its own rate, all else at that of float32; kernels need no start."""
    roofs = host_roofs({"cpu_peaks": {"float32": 2e11, "float64": 1e11, "copy": 3e10}})
    assert roofs == DeviceRoofs({FLOAT64: 1e11, FLOAT32: 2e11, TENSOR_FLOAT32: 2e11, BITS_16: 2e11}, 3e10, 0.0)
    assert op_roof(op(product_cost(1e9)), 1, 1e10, roofs).share == pytest.approx(0.5)
    odd = ({"float32": text, "copy": 3e10} for text in ("2e11", -1.0, float("nan"), float("inf"), None))
    for measured in ({}, {"float32": 2e11}, {"copy": 3e10}, None, *odd):
        assert host_roofs({"cpu_peaks": measured}) is None
    assert host_roofs({}) is None

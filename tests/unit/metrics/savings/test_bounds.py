"""What a step would lose at most, on numbers whose truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outpace.metrics.facts import cpu_saturation
from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE, InstructionStats, instruction_stats
from outpace.metrics.facts.model_ops import model_ops
from outpace.metrics.savings.bounds import (
    background_bound,
    call_overhead_bound,
    fusion_bound,
    half_precision_bound,
    half_precision_fraction,
    input_wait_bound,
    overlap_bound,
    rebuild_bound,
)
from outpace.metrics.savings.budget import budgets
from outpace.model import Category
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline.hlo.cost import product_cost
from outpace.timeline.hlo.ops import HloOp
from outpace.trace import Trace, read_trace
from tests.advice_cases.build import HOST, MS, STEPS, budget, computes, device_trace, run, table


@pytest.mark.parametrize(("wait", "rest", "share"), [(14.0, 3.7, 3.7 / 17.7), (3.7, 14.0, 3.7 / 17.7), (0.0, 5.0, 0.0)])
def test_what_overlaps_hides_the_shorter_of_the_two(wait: float, rest: float, share: float) -> None:
    """A pipeline of 17.7 ms behind a model of 3.7 ms can give 3.7 ms."""
    waits = np.full(4, wait)
    assert overlap_bound(waits, waits + rest) == pytest.approx(share)


def test_each_step_hides_its_own() -> None:
    """One step that waits ten times as long hides no more than it computes."""
    waits, steps = np.array([1.0, 1.0, 10.0]), np.array([2.0, 2.0, 11.0])
    assert overlap_bound(waits, steps) == pytest.approx(3 / 15)


@pytest.mark.parametrize(
    ("share", "works", "left"),
    [(0.3, 0.9, 0.3), (0.3, 0.15, 0.3), (0.3, 0.1, 0.1), (0.3, 0.06, 0.0), (0.06, 0.04, 0.0), (0.9, 0.02, 0.02)],
)
def test_a_pipeline_that_is_ready_long_before_is_not_waited_for(share: float, works: float, left: float) -> None:
    assert input_wait_bound(share, works) == left


@pytest.mark.parametrize(
    ("gone", "work", "others", "busy", "cores", "share"),
    [
        (0.7, 0.7, 0.0, 0.5, 4, 0.5),  # as much as cores are idle
        (0.7, 0.7, 0.0, 0.97, 4, 0.03),  # busy cores take no work
        (0.3, 0.9, 0.0, 0.1, 4, 0.3),  # no more than the step spends on it
        (0.9, 3.2, 0.0, 0.5, 4, 0.2),  # what takes all cores 80% of a step
        (0.9, 0.9, 0.6, 0.1, 4, 0.4),  # the next slowest stage
    ],
)
def test_moved_work_finds_only_idle_cores(
    gone: float, work: float, others: float, busy: float, cores: int, share: float
) -> None:
    rows = table("saturation", cpu_saturation.SATURATION, {"saturation": busy})
    of = run({cpu_saturation.cpu_saturation: rows}, {"cpu_count": cores})
    assert background_bound(of, HOST, gone, work, others) == pytest.approx(share)


def test_what_nobody_measured_limits_nothing() -> None:
    assert background_bound(run(), HOST, 0.7, 0.7) == 0.7


@pytest.mark.parametrize(("ops", "waits", "builds", "left"), [(0.2, 0.1, 0.0, 0.7), (0.5, 0.3, 0.1, 0.1), (0.9, 0.2, 0.0, 0.0)])
def test_calls_cost_what_is_no_op(ops: float, waits: float, builds: float, left: float) -> None:
    of = run({model_ops: computes(ops), budgets: budget({Category.INPUT: waits, Category.COMPILATION: builds})})
    assert call_overhead_bound(of, HOST) == pytest.approx(left)


@pytest.mark.parametrize(("usual", "left"), [(0.0, 91.0), (2.0, 89.0), (100.0, 0.0)])
def test_a_new_graph_costs_its_building_and_its_first_run(usual: float, left: float) -> None:
    assert rebuild_bound(91.0, usual, 1) == left


def ran(us: float, share: float = 0.5, count: int = STEPS, side: str = DEVICE_SIDE, **told: Any) -> InstructionStats:
    """An op of `us` µs, `count` times in all steps."""
    return InstructionStats(
        side, HloOp(**{"opcode": "fusion", "precision_bits": 32, **told}), us * 1e6 * count / STEPS, share, count, STEPS
    )


def gpu() -> Trace:
    """H100s, a little slower, of which a step computes for 4 ms in 32 bits."""
    space = SpaceBuilder(HOST)
    line = space.plane("/host:CPU").line("python")
    for number in range(STEPS):
        line.event("train", number * 10 * MS, 10 * MS, step_num=number, _r=1)
    rates = {"core_count": 125, "clock_rate": 1_953_125}
    made = GpuBuilder(space, line, **{"compute_cap_major": 9, "compute_cap_minor": 0, **rates})  # type: ignore[arg-type]
    for number in range(STEPS):
        made.kernel("sgemm", (10 * number + 5) * MS, 4 * MS, called=(10 * number + 1) * MS)
    return read_trace(space.to_bytes(), HOST)


@pytest.mark.parametrize(
    ("op", "saved"),
    [
        (ran(100), 0.25),
        (ran(100, precision_bits=16), 0.0),
        (ran(100, precision_bits=64), 0.0),
        (ran(100, side="CPU"), 0.0),
        (ran(100, opcode="copy"), 0.25),
        (ran(100, opcode="copy", undonated_argument="state[0]"), 0.0),
        (ran(100, opcode="dot", cost=product_cost(20e9)), 0.5 * 0.8),
        (ran(100, opcode="dot", cost=product_cost(80e9)), 0.25),
        (ran(100, opcode="dot", cost=product_cost(80e9), is_highest_precision=True), 0.5 * 0.99),
        (ran(4), 0.25),
        (ran(1.25), 0.5 * 0.2),
        (ran(0.9), 0.0),
        (ran(4, count=7 * STEPS), 0.25),
        (ran(2, opcode="dot", cost=product_cost(0.2e9)), 0.5 * 0.5),
    ],
    ids=[
        *("half of the bytes", "16 bits already", "64 bits", "on the host", "copies of results are half as long"),
        *(
            "a copy of a parameter",
            "a product at a fifth of the peak",
            "a product near the peak",
            "all digits",
            "a short kernel",
        ),
        *("one that takes a little longer than nothing", "one that does nothing", "by the kernel", "a short product"),
    ],
)
def test_what_16_bits_can_make_shorter(op: InstructionStats, saved: float) -> None:
    of = run({instruction_stats: {HOST: (op,)}}, None, gpu())
    assert half_precision_bound([op], of.by_host[HOST]) == pytest.approx(saved)


def test_of_a_device_whose_peak_is_not_known_products_save_half() -> None:
    of = run(None, None, device_trace())
    assert half_precision_bound([ran(100, opcode="dot", cost=product_cost(20e9))], of.by_host[HOST]) == 0.25


def test_an_op_of_a_tpu_is_no_kernel_that_is_launched() -> None:
    space = SpaceBuilder(HOST)
    space.plane("/host:CPU").line("python").event("train", 0, MS, step_num=0, _r=1)
    space.plane("/device:TPU:0").line("XLA Ops").event("fusion.1", 0, MS)
    of = run(None, None, read_trace(space.to_bytes(), HOST))
    assert half_precision_bound([ran(0.5)], of.by_host[HOST]) == 0.25


def test_the_part_that_16_bits_can_shorten() -> None:
    """Twice what they save of all that is in 32 bits; all of it where no program tells."""
    ops = ran(100, 0.3), ran(0.9, 0.1), ran(100, 0.2, precision_bits=16), ran(100, 0.9, side="CPU")
    assert half_precision_fraction(run({instruction_stats: {HOST: ops}}, None, gpu())) == pytest.approx(0.3 / 0.4)
    assert half_precision_fraction(run({instruction_stats: {HOST: ()}}, None, gpu())) == 1.0
    assert half_precision_fraction(run({instruction_stats: {HOST: (ran(0.9, 0.4),)}}, None, gpu())) == 0.0


@pytest.mark.parametrize(
    ("op", "gone"),
    [
        (ran(100, 0.3, cost=product_cost(1e9)), 0.0),
        (ran(9, 0.3, cost=product_cost(1e9)), 0.3),
        (ran(11, 0.3, cost=product_cost(1e9)), 0.0),
        (ran(100, 0.3), 0.3),
        (ran(100, 0.3, opcode="custom-call"), 0.0),
        (ran(9, 0.3, opcode="custom-call"), 0.3),
        (ran(100, 0.3, side="CPU"), 0.0),
        (ran(100, 0.9), 0.4),
    ],
    ids=[
        "a product",
        "a short one",
        "a longer one",
        "any other op",
        "a library's call",
        "a short call",
        "on the host",
        "no more than devices compute",
    ],
)
def test_what_one_program_fuses(op: InstructionStats, gone: float) -> None:
    assert fusion_bound(run({instruction_stats: {HOST: (op,)}}, None, gpu()), HOST) == pytest.approx(gone)

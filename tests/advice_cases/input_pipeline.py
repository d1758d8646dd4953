"""Steps that wait for input, and input that takes the model's cores."""

from __future__ import annotations

from typing import Any

from outpace.metrics.facts import cpu_saturation
from outpace.metrics.facts.host_offload import HostOffload
from outpace.metrics.facts.workload import Workload
from outpace.model import Category, Severity, Table
from outpace.tools.input_pipeline import findings as rules
from tests.advice_cases.build import HOST, breakdown, table
from tests.advice_cases.case import JAX, TENSORFLOW, Case, Find, about, fires, silent, worded


def _busy(saturation: float, share: float) -> Table:
    return table("saturation", cpu_saturation.SATURATION, {"saturation": saturation, "input_share": share})


def _waits(
    share: float,
    saturation: Table | None = None,
    back: float = 0.0,
    program: Workload = TENSORFLOW,
    works: float | None = None,
) -> Find:
    """`works`: of the step, of a pipeline that runs beside it."""
    steps = breakdown({Category.INPUT: share})
    return lambda: rules.iter_findings(steps, saturation, {HOST: (back, 0.0)}, program, works)


def _rated(name: str, others: float, waits: float = 0.02) -> Case:
    """Without a finding, but rated: the page says whether the program may be input-bound."""
    steps = breakdown({Category.ALL_OTHERS: others, Category.INPUT: waits})
    return silent(
        "input_bound",
        name,
        lambda: rules.iter_findings(steps, None, {}, TENSORFLOW, None),
        also=lambda: rules.judge_input_wait(steps)[:2],
    )


def _moves(share: float, waits: float = 0.0, program: Workload = TENSORFLOW) -> Find:
    """Of a step `share` transfers to the device, and `waits` waits for input otherwise."""
    steps = breakdown({Category.INPUT: share + waits}, moves=share)
    return lambda: rules.iter_findings(steps, None, {}, program, None)


def _keeps(fetching: float, writing: float) -> Find:
    """Of a step `fetching` awaits arrays from the host's memory, and `writing` that others are
    written back.
    """
    steps = breakdown({Category.INPUT: fetching, Category.OUTPUT: writing}, moves=fetching)
    found = HostOffload("vm", 2 * 2**30, 2**30, fetching, writing, 2.0, "/home/me/train.py:9")
    return lambda: rules.iter_findings(steps, None, {}, JAX, None, [found])


_INPUT: dict[str, Any] = {"takes_from": ("input",)}
_CORES: dict[str, Any] = {"takes_from": ("input", "host_compute")}
CASES: list[Case] = [
    *worded(
        "input_bound",
        lambda program: _waits(0.3, program=program)(),
        Severity.HIGH,
        keras="PyDataset",
        tensorflow="end the pipeline with .prefetch(tf.data.AUTOTUNE)",
        jax="jax.device_put",
        saves=about(0.3),
        **_INPUT,
    ),
    *worded(
        "input_bound",
        lambda program: _waits(0.7, program=program, works=0.95)(),
        Severity.HIGH,
        name="beside the step already",
        keras=".cache() behind what does not change",
        tensorflow=".cache() behind what does not change",
        jax="several of them",
        saves=about(0.7),
        **_INPUT,
    ),
    fires("input_bound", "behind a short model", _waits(0.83), Severity.HIGH, saves=about(0.17), says=(".prefetch",), **_INPUT),
    fires(
        "input_bound",
        "most of the wait is not the pipeline's",
        _waits(0.3, works=0.1),
        Severity.HIGH,
        saves=about(0.1),
        **_INPUT,
    ),
    fires(
        "input_bound", "a pipeline that keeps up", _waits(0.3, works=0.02), Severity.INFO, says=("keeps up", "2% of the step")
    ),
    fires("input_bound", "15% of the step", _waits(0.15), Severity.MODERATE, saves=about(0.15), **_INPUT),
    fires("input_bound", "8% of the step", _waits(0.08), Severity.MODERATE, saves=about(0.08), **_INPUT),
    fires(
        "input_bound",
        "the cores are cpu_contention's",
        _waits(0.3, _busy(0.97, 0.3), 0.5),
        Severity.HIGH,
        saves=about(0.3),
        **_INPUT,
    ),
    fires("input_bound", "beside transfers", _moves(0.1, 0.3), Severity.HIGH, saves=(0.295, 0.405), **_INPUT),
    fires(
        "input_bound",
        "4% beside 4% of transfers",
        _moves(0.04, 0.04),
        Severity.MODERATE,
        saves=(0.04, 0.085),
    ),
    fires(
        "input_bound",
        "10% beside 40% of transfers",
        _moves(0.4, 0.1),
        Severity.MODERATE,
        saves=about(0.1),
    ),
    silent("input_bound", "all of it transfers", _moves(0.3)),
    silent("input_bound", "3% of the step", _waits(0.03)),
    *worded(
        "transfer_bound",
        lambda program: _moves(0.3, program=program)(),
        Severity.HIGH,
        keras=".prefetch(tf.data.AUTOTUNE)",
        tensorflow="prefetch_to_device",
        jax="jax.device_put",
        saves=about(0.3),
        **_INPUT,
    ),
    fires("transfer_bound", "15% of the step", _moves(0.15), Severity.MODERATE, saves=about(0.15), **_INPUT),
    fires("transfer_bound", "beside a wait", _moves(0.08, 0.2), Severity.MODERATE, saves=about(0.08), **_INPUT),
    fires("transfer_bound", "70% of the step", _moves(0.7), Severity.HIGH, saves=about(0.3), says=("hides 30%",), **_INPUT),
    fires(
        "offloaded",
        "fetched for 50% of the step, written back for 20%",
        _keeps(0.5, 0.2),
        Severity.HIGH,
        saves=about(0.7),
        takes_from=("input", "output"),
        location="train.py:9",
        says=("fetches 2.00 GiB (2 arrays, 50% of the step) and writes 1.00 GiB back (20%)", "hides 50%"),
    ),
    fires("offloaded", "15%", _keeps(0.1, 0.05), Severity.MODERATE, saves=about(0.15), location="train.py:9"),
    silent("offloaded", "3%", _keeps(0.02, 0.01)),
    silent("transfer_bound", "3% of the step", _moves(0.03)),
    silent("transfer_bound", "it waits for input", _waits(0.3)),
    fires(
        "cpu_contention", "all cores busy", _waits(0.0, _busy(0.97, 0.3), 0.2), Severity.MODERATE, saves=about(0.2), **_CORES
    ),
    fires(
        "cpu_contention",
        "and steps wait",
        _waits(0.3, _busy(0.97, 0.3), 0.5),
        Severity.MODERATE,
        saves=about(0.3 + 0.7 * 0.5),
        **_CORES,
    ),
    fires(
        "cpu_contention",
        "of JAX",
        _waits(0.0, _busy(0.97, 0.3), 0.2, JAX),
        Severity.MODERATE,
        saves=about(0.2),
        never=("tf.data",),
    ),
    fires(
        "cpu_contention",
        "three quarters busy, half of it input",
        _waits(0.0, _busy(0.75, 0.5), 0.2),
        Severity.MODERATE,
        saves=about(0.2),
        **_CORES,
    ),
    silent("cpu_contention", "three quarters busy, a quarter of it input", _waits(0.0, _busy(0.75, 0.25), 0.2)),
    silent("cpu_contention", "ops lose 3% of the step to it", _waits(0.0, _busy(0.97, 0.3), 0.03)),
    silent("cpu_contention", "60% busy, half of it input", _waits(0.0, _busy(0.6, 0.5), 0.2)),
    silent("cpu_contention", "60% busy", _waits(0.0, _busy(0.6, 0.3), 0.2)),
    silent("cpu_contention", "little of it input", _waits(0.0, _busy(0.97, 0.15), 0.2)),
    _rated("4% without an event", 0.04),
    _rated("2% without an event", 0.02),
    _rated("4% without an event, no wait that a reader would see", 0.04, 0.0004),
    _rated("4% without an event, hardly a wait", 0.04, 0.0008),
]

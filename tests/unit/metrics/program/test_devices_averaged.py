"""Several devices of a host: each with the host, and then their mean; none is united with another,
or added to it.
"""

from __future__ import annotations

import numpy as np
import pytest

from outpace.metrics.facts.step_breakdown import averaged_devices, category_times, step_breakdown
from outpace.metrics.views.model_parts import model_parts
from outpace.model import Category
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.support import beside, opened, opened_beside

MS = 1_000_000_000
STEPS, STEP = 10, 10 * MS


def run_of(*busy: tuple[int, int], host: tuple[int, int] | None = None, only: int = STEPS) -> Run:
    """Ten steps of 10 ms; each device computes from and until these ms of every step (the last
    device in the first `only`); `host`: an op.
    """
    space = SpaceBuilder("vm")
    line = space.plane("/host:CPU").line("python")
    for step in range(STEPS):
        line.event("train", step * STEP, STEP, step_num=step, _r=1)
        if host:
            line.event("a/Mul:Mul", step * STEP + host[0] * MS, (host[1] - host[0]) * MS)
    for index, (start, end) in enumerate(busy):
        device = GpuBuilder(space, line, index=index)
        for step in range(only if index == len(busy) - 1 else STEPS):
            device.kernel("k", step * STEP + start * MS, (end - start) * MS, op="a/MatMul:MatMul")
    return Run.from_traces([read_trace(space.to_bytes(), "vm")])


def means(run: Run) -> dict[Category, float]:
    table = step_breakdown(run).steady_steps
    found = {c: float(table[f"{c.value}_ps"].mean()) / MS for c in Category}
    assert sum(found.values()) == pytest.approx(float(table["duration_ps"].mean()) / MS)
    return {c: time for c, time in found.items() if time}


def test_two_devices_in_turn_are_busy_for_half_of_the_step_each() -> None:
    """One computes in 0-5, the other in 5-9: united they would fill 90 % of the step."""
    assert means(run_of((0, 5), (5, 9))) == pytest.approx({Category.DEVICE_COMPUTE_32: 4.5, Category.ALL_OTHERS: 5.5})


def test_a_slow_device_is_not_all_of_them() -> None:
    """Eight devices, of which seven compute for 2 ms, and one for 10."""
    found = means(run_of(*[(0, 2)] * 7, (0, 10)))
    assert found[Category.DEVICE_COMPUTE_32] == pytest.approx(3)


def test_each_device_is_looked_at_with_the_host() -> None:
    """The host works in 4-10: of that it shows 5 beside the device that ends at 5, and 6 beside the
    one that ends at 2.
    """
    found = means(run_of((0, 5), (0, 2), host=(4, 10)))
    assert found == pytest.approx({Category.DEVICE_COMPUTE_32: 3.5, Category.HOST_COMPUTE: 5.5, Category.ALL_OTHERS: 1.0})


def test_a_device_that_takes_no_part_is_in_no_mean() -> None:
    """It computes for 2 ms in four of the ten steps: the mean is that of the other two, or the one,
    that compute in all of them.
    """
    assert means(run_of((0, 6), (6, 8), only=4)) == means(run_of((0, 6)))
    assert means(run_of((0, 6), (0, 2), (6, 8), only=4))[Category.DEVICE_COMPUTE_32] == pytest.approx(4)
    assert len(averaged_devices(run_of((0, 6), (0, 2), (6, 8), only=5).hosts[0])) == 3


def test_what_takes_no_time_on_a_device_holds_nothing_open() -> None:
    """A start of a copy, without duration, before a copy of 6 ms: until the next kernel ends,
    nothing computes.
    """
    space = SpaceBuilder("vm")
    line = space.plane("/host:CPU").line("python")
    device = GpuBuilder(space, line)
    for step in range(STEPS):
        line.event("train", step * STEP, STEP, step_num=step, _r=1)
        device.kernel("start", step * STEP, 0, op="a/MatMul:MatMul")
        device.copy("H2D", 1000, step * STEP, 6 * MS, called=step * STEP)
        device.kernel("k", step * STEP + 6 * MS, 2 * MS, op="a/MatMul:MatMul")
    found = means(Run.from_traces([read_trace(space.to_bytes(), "vm")]))
    assert found[Category.DEVICE_COMPUTE_32] == pytest.approx(2)
    assert found[Category.INPUT] == pytest.approx(6, abs=0.01)


def test_parts_of_the_model_are_the_mean_of_the_devices() -> None:
    """Devices that compute in turn, 5 and 4 ms, and side by side, 5 and 5: the layer takes 4.5 and
    5 of 10 ms.
    """
    for busy, share in ((((0, 5), (5, 9)), 0.45), (((0, 5), (0, 5)), 0.5)):
        (row,) = (r for r in model_parts(run_of(*busy)).records() if r["side"] == "Device")
        assert row["share"] == pytest.approx(share)
        assert row["count"] == pytest.approx(1)


def test_chips_of_a_tpu_host() -> None:
    """Each of four chips copies from the host for 74.6 % of its step, to the host for 22.4 %, and
    computes for 3.0 %.
    """
    table = step_breakdown(opened("tpu_v6e_inference").run).steady_steps
    total = table["duration_ps"].sum()
    shares = [table[f"{c.value}_ps"].sum() / total for c in (Category.INPUT, Category.OUTPUT, Category.DEVICE_COMPUTE_32)]
    assert shares == pytest.approx([0.745, 0.225, 0.030], abs=0.002)


@pytest.mark.skipif(not beside(("jax_rocm_conv_8gpu",)), reason="the profile lies beside the repository only")
def test_the_mean_is_that_of_the_devices_swept_one_by_one() -> None:
    run = opened_beside("jax_rocm_conv_8gpu").run
    (timeline,) = run.hosts
    devices = averaged_devices(timeline)
    assert len(devices) == 8
    swept = [category_times(timeline, (*timeline.host_planes, device)) for device in devices]
    mean = category_times(timeline)
    for key, found in mean.items():
        assert found == pytest.approx(
            np.mean([each[key] for each in swept], axis=0), abs=0.001 * timeline.steps.duration.mean()
        )

"""What goes with periodic work, and with a host that stops beside a device: all that it costs, and
no more.
"""

from __future__ import annotations

import pytest

from outpace.metrics.facts import step_breakdown
from outpace.metrics.facts.step_breakdown import StepBreakdown
from outpace.metrics.savings.budget import budgets
from outpace.model import Category, Finding
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline import Run
from outpace.tools.overview import step_overheads, unsteady_steps
from outpace.trace import read_trace
from tests.advice_cases.build import HOST, MS, run, table, trace_of
from tests.advice_cases.case import JAX


def periodic(**more: float) -> Finding:
    """Twenty steps of 10 ms, half of them Python; every fifth takes these ms more."""
    rows = []
    for number in range(20):
        parts = {"host_compute": 5.0, "all_others": 5.0}
        for category, ms in more.items() if number % 5 == 4 else ():
            parts[category] = parts.get(category, 0.0) + ms
        columns = {f"{category}_ps": round(ms * MS) for category, ms in parts.items()}
        about = {"host": HOST, "step": number, "source": "marked", "complete": True, "duration_ps": sum(columns.values())}
        rows.append({**about, **columns})
    steps = StepBreakdown(table("steps", step_breakdown.STEPS, *rows), {HOST: 1})
    (found,) = (f for f in unsteady_steps.iter_findings(run(None, None, trace_of(20)), steps, JAX) if f.id == "periodic_cost")
    return found


@pytest.mark.parametrize(
    ("more", "gone", "takes"),
    [
        ({"all_others": 15.0}, 15.0, {"all_others"}),
        ({"all_others": 15.0, "host_compute": 4.0}, 19.0, {"all_others", "host_compute"}),
        ({"all_others": 15.0, "output": 5.0, "host_compute": 1.0}, 21.0, {"all_others", "output", "host_compute"}),
        ({"all_others": 15.0, "input": 5.0}, 15.0, {"all_others"}),
        ({"all_others": 15.0, "host_compute": -1.0}, 15.0, {"all_others"}),
    ],
    ids=["Python", "and ops", "and copies to the host", "a wait for input is another matter", "where ops take less"],
)
def test_periodic_work_is_worth_all_that_it_takes_more(more: dict[str, float], gone: float, takes: set[str]) -> None:
    found = periodic(**more)
    assert found.saving is not None
    assert found.saving.high == pytest.approx(4 * gone / (200 + 4 * sum(more.values())))
    assert set(found.saving.takes_from) == takes


def stopped(device: bool) -> tuple[Run, Finding]:
    """Steps of 10 ms in which the thread stops for 4 ms; a device, where there is one, works for 2
    ms, launched right before.
    """
    space = SpaceBuilder(HOST)
    line = space.plane("/host:CPU").line("python")
    gpu = GpuBuilder(space, line) if device else None
    for number in range(8):
        at = number * 10 * MS
        line.event("train", at, 10 * MS, step_num=number, _r=1)
        line.event("tf.constant", at, 2 * MS).event("convert_to_tensor", at + 6 * MS, 4 * MS)
        if gpu:
            gpu.kernel("gemm", at + 8 * MS, 2 * MS, op="dense/MatMul:MatMul", called=at + 6 * MS, call_ps=MS)
    of = run(None, None, read_trace(space.to_bytes(), HOST))
    (found,) = (f for f in step_overheads.iter_findings(of, JAX) if f.id == "even_stops")
    return of, found


def test_a_host_that_stops_no_more_runs_ahead_of_its_device() -> None:
    of, found = stopped(device=True)
    shares = budgets(of)[HOST].category_shares
    assert found.saving is not None
    beside = shares[Category.HOST_COMPUTE.value] + shares[Category.KERNEL_LAUNCH.value]
    assert beside > 0.1
    assert found.saving.high == pytest.approx(0.4 + beside)
    assert found.saving.high <= 0.8, "what its device works stays"
    assert set(found.saving.takes_from) == {"all_others", "host_compute", "kernel_launch"}


def test_without_a_device_only_the_stop_goes() -> None:
    _, found = stopped(device=False)
    assert found.saving is not None
    assert found.saving.high == pytest.approx(0.4)
    assert found.saving.takes_from == ("all_others",)

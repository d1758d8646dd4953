"""Copies to the device, on threads that take turns."""

from __future__ import annotations

import pytest

from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.views.host_copies import HOST_COPIES, host_copies
from outpace.testing import SpaceBuilder, training_run
from outpace.timeline import Run
from outpace.tools.overview.compute import compute_mean_step
from outpace.tools.overview.page import render_headline
from outpace.trace import read_trace
from tests.advice_cases.build import run, table

MS = 1_000_000_000


@pytest.mark.parametrize(
    ("copied", "said"),
    [
        (0.8, "Copy-bound: 80% of the 5.50 ms step copies"),
        (0.3, "CPU-bound"),
    ],
)
def test_the_headline_tells_copies_from_computation(copied: float, said: str) -> None:
    """Steps of half a millisecond of input and five of ops."""
    trace = read_trace(training_run(input_ps=MS // 2).to_bytes(), "vm")
    of = run({host_copies: table("host_copies", HOST_COPIES, {"share": copied})}, None, trace)
    assert render_headline(of, compute_mean_step(step_breakdown(of))).startswith(said)


def test_copies_of_several_threads_are_counted_in_their_steps() -> None:
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    main, late, early = plane.line("python"), plane.line("client/1"), plane.line("client/2")
    for number in range(8):
        begin = number * 10 * MS
        main.event("train", begin, 10 * MS, step_num=number, _r=1)
        thread = late if number >= 5 else early
        thread.event("H2D Dispatch", begin + MS, 3 * MS)
        thread.event("H2D Dispatch", begin + 5 * MS, 3 * MS)
    (row,) = host_copies(Run.from_traces([read_trace(space.to_bytes(), "vm")])).records()
    assert (row["copies"], row["copied_ps"], row["share"]) == (2.0, 6 * MS, 0.6)


def test_a_copy_beside_computation_costs_no_time() -> None:
    """Copies of 6 ms per step, 2 of them while XLA's threads still compute the step before."""
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    main, client, worker = plane.line("python"), plane.line("client/1"), plane.line("tf_XLAEigen/1")
    for number in range(8):
        begin = number * 10 * MS
        main.event("train", begin, 10 * MS, step_num=number, _r=1)
        main.event("PjitFunction(step)", begin, MS)
        client.event("H2D Dispatch", begin + MS, 6 * MS)
        worker.event("ThunkExecutor::Execute", begin, 3 * MS)
    (row,) = host_copies(Run.from_traces([read_trace(space.to_bytes(), "vm")])).records()
    assert (row["copied_ps"], row["share"]) == (6 * MS, 0.4)

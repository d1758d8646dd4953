"""Loops that hand work over faster than it runs: steps are those of the runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outpace.timeline.workers import by_time, executed
from tests.unit.timeline.loops import MS, Loop, durations


def handed_over(runs: int, run_ms: float, call_ms: float, waits: bool = False) -> Loop:
    """A loop that hands over `runs` steps, one call each, and then waits for the last; `waits`: it waits for every one."""
    loop = Loop()
    worker = loop.space.plane("/host:CPU").line("tf_XLAPjRtCpuClient/1")
    free = 0
    for number in range(runs):
        began = max(free, loop.at + MS // 10)
        free = began + round(run_ms * MS)
        what: dict[str, Any] = {"hlo_op": "svd.1", "hlo_module": "jit_step", "program_id": 8, "run_id": 100 + number}
        worker.event("svd.1", began, free - began, **what)
        loop.jit("step", call_ms)
        if waits:
            loop.event("CommonPjRtBuffer::Await", (free - loop.at) / MS)
    loop.event("np.asarray(jax.Array)", (free - loop.at) / MS)
    return loop


def test_steps_are_the_runs_of_a_program_whose_calls_do_not_wait() -> None:
    steps = handed_over(runs=20, run_ms=60, call_ms=1).steps()
    assert len(steps) == 20
    assert durations(steps)[1:] == [60] * 19
    assert steps.ahead
    assert steps.how.startswith("20 runs of step") and "do not wait" in steps.how


def test_what_runs_in_a_step_belongs_to_it_whichever_call_handed_it_over() -> None:
    timeline = handed_over(runs=20, run_ms=60, call_ms=1).run.hosts[0]
    rows = timeline.trace.named(lambda name: name == "svd.1")
    assert timeline.step_of[rows].tolist() == list(range(20))


@pytest.mark.parametrize("run_ms, call_ms", [(5, 6), (6, 6)])
def test_calls_that_keep_pace_with_their_runs_are_the_steps(run_ms: float, call_ms: float) -> None:
    steps = handed_over(runs=20, run_ms=run_ms, call_ms=call_ms).steps()
    assert not steps.ahead
    assert steps.how.startswith("20 calls of")


def test_calls_whose_results_are_waited_for_are_the_steps() -> None:
    steps = handed_over(runs=20, run_ms=60, call_ms=1, waits=True).steps()
    assert not steps.ahead
    assert durations(steps)[1:] == [pytest.approx(60.1)] * 19


@pytest.mark.parametrize("run_ms, ahead", [(11, False), (14, True)])
def test_a_fifth_between_the_two_step_times_tells_them_apart(run_ms: float, ahead: bool) -> None:
    """The wait at the end belongs to no step of the calls, whose step time stays 10 ms."""
    assert handed_over(runs=20, run_ms=run_ms, call_ms=10).steps().ahead is ahead


@pytest.mark.parametrize("runs, ahead", [(3, False), (4, True)])
def test_few_runs_say_nothing(runs: int, ahead: bool) -> None:
    assert handed_over(runs=runs, run_ms=60, call_ms=1).steps().ahead is ahead


@pytest.mark.parametrize("linked, found", [(0, [0, 1, 2, 3]), (1, [0, 1, 2, 3]), (3, [0, 0, 0, 3])])
def test_links_that_time_contradicts_are_believed_where_both_mostly_agree(linked: int, found: list[int]) -> None:
    """Ops 1 and 2 run in steps 1 and 2, and links give them to step 0; `linked`: how many of all agree with time."""
    loop = Loop()
    worker = loop.space.plane("/host:CPU").line("tf_XLAPjRtCpuClient/1")
    for number in range(4):
        worker.event("dot", number * 10 * MS, MS, hlo_op="dot", hlo_module="jit_step", run_id=number)
    trace = loop.jit("step", 1).run.hosts[0].trace
    rows = executed(trace)
    group = np.full(len(trace), -1, np.int32)
    group[rows] = {0: [3, 0, 0, 0], 1: [0, 0, 0, 0], 3: [0, 0, 0, 3]}[linked]
    start = np.arange(4) * 10 * MS
    assert by_time(trace, start, start + 10 * MS, group, ahead=False)[rows].tolist() == found


def test_runs_of_programs_that_tensorflow_compiled_are_no_runs_of_a_call() -> None:
    """Neither `train_step` nor `cluster_0` is a name of JAX: that both name none of its functions makes them no pair."""
    loop = Loop()
    worker = loop.space.plane("/host:CPU").line("tf_XLAEigen/1")
    for number in range(20):
        worker.event("dot", number * 60 * MS, 60 * MS, hlo_op="dot", hlo_module="cluster_0", run_id=number)
        loop.call("train_step", 1)
    steps = loop.steps()
    assert not steps.ahead
    assert "20 calls of train_step" in steps.how

"""Loops that hand work over faster than it runs: steps are those of the runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outpace.timeline import Confidence, StepSource
from outpace.timeline.xla_threads import assign_by_time, find_hlo_events
from tests.unit.timeline.loops import MS, Loop, durations
from tests.unit.timeline.test_gradients import BACKWARD, programs


def handed_over(runs: int, run_ms: float, call_ms: float, waits: bool = False, every: int = 1) -> Loop:
    """A loop that hands over `runs` steps, one call each, and then waits for the last; `waits`: it
    waits for every one, or one in `every`.
    """
    loop = Loop()
    worker = loop.space.plane("/host:CPU").line("tf_XLAPjRtCpuClient/1")
    free = 0
    for number in range(runs):
        began = max(free, loop.at + MS // 10)
        free = began + round(run_ms * MS)
        what: dict[str, Any] = {"hlo_op": "svd.1", "hlo_module": "jit_step", "program_id": 8, "run_id": 100 + number}
        worker.event("svd.1", began, free - began, **what)
        loop.jit("step", call_ms)
        if waits and number % every == every - 1:
            loop.event("CommonPjRtBuffer::Await", (free - loop.at) / MS)
    loop.event("np.asarray(jax.Array)", (free - loop.at) / MS)
    return loop


def test_steps_are_the_runs_of_a_program_whose_calls_do_not_wait() -> None:
    steps = handed_over(runs=20, run_ms=60, call_ms=1).steps()
    assert len(steps) == 20
    assert durations(steps)[1:] == [60] * 19
    assert steps.async_dispatch
    assert steps.explanation.startswith("20 runs of step") and "do not wait" in steps.explanation


def test_what_runs_in_a_step_belongs_to_it_whichever_call_handed_it_over() -> None:
    timeline = handed_over(runs=20, run_ms=60, call_ms=1).run.hosts[0]
    rows = timeline.trace.find_rows_by_name(lambda name: name == "svd.1")
    assert timeline.step_index[rows].tolist() == list(range(20))


@pytest.mark.parametrize("run_ms, call_ms", [(5, 6), (6, 6)])
def test_calls_that_keep_pace_with_their_runs_are_the_steps(run_ms: float, call_ms: float) -> None:
    steps = handed_over(runs=20, run_ms=run_ms, call_ms=call_ms).steps()
    assert not steps.async_dispatch
    assert steps.explanation.startswith("20 calls of")


def test_steps_are_the_runs_where_one_call_in_ten_waits() -> None:
    """The mean step time of the calls is that of the runs then."""
    steps = handed_over(runs=60, run_ms=60, call_ms=1, waits=True, every=10).steps()
    assert steps.async_dispatch
    assert np.median(durations(steps)[1:]) == 60 and max(durations(steps)[1:]) < 62


def test_calls_whose_results_are_waited_for_are_the_steps() -> None:
    steps = handed_over(runs=20, run_ms=60, call_ms=1, waits=True).steps()
    assert not steps.async_dispatch
    assert durations(steps)[1:] == [pytest.approx(60.1)] * 19


@pytest.mark.parametrize("run_ms, ahead", [(11, False), (14, True)])
def test_a_fifth_between_the_two_step_times_tells_them_apart(run_ms: float, ahead: bool) -> None:
    """The wait at the end belongs to no step of the calls, whose step time stays 10 ms."""
    assert handed_over(runs=20, run_ms=run_ms, call_ms=10).steps().async_dispatch is ahead


@pytest.mark.parametrize("runs, ahead", [(3, False), (4, True)])
def test_few_runs_say_nothing(runs: int, ahead: bool) -> None:
    assert handed_over(runs=runs, run_ms=60, call_ms=1).steps().async_dispatch is ahead


@pytest.mark.parametrize("linked, found", [(0, [0, 1, 2, 3]), (1, [0, 1, 2, 3]), (3, [0, 0, 0, 3])])
def test_links_that_time_contradicts_are_believed_where_both_mostly_agree(linked: int, found: list[int]) -> None:
    """Ops 1 and 2 run in steps 1 and 2, and links give them to step 0; `linked`: how many of all
    agree with time.
    """
    loop = Loop()
    worker = loop.space.plane("/host:CPU").line("tf_XLAPjRtCpuClient/1")
    for number in range(4):
        worker.event("dot", number * 10 * MS, MS, hlo_op="dot", hlo_module="jit_step", run_id=number)
    trace = loop.jit("step", 1).run.hosts[0].trace
    rows = find_hlo_events(trace)
    group = np.full(len(trace), -1, np.int32)
    group[rows] = {0: [3, 0, 0, 0], 1: [0, 0, 0, 0], 3: [0, 0, 0, 3]}[linked]
    start = np.arange(4) * 10 * MS
    assert assign_by_time(trace, start, start + 10 * MS, group, async_dispatch=False)[rows].tolist() == found


def queued(runs: int, run_ms: float, called: int, mark_ms: float = 0.0, module: str = "jit_step") -> Loop:
    """Runs one behind the other; the last `called` of them are handed over in the first
    milliseconds of the capture, each within a mark of `mark_ms` where there is one. Behind the last
    run the loop adds up what it has fetched.
    """
    loop = Loop()
    worker = loop.space.plane("/host:CPU").line("tf_XLAPjRtCpuClient/1")
    for number in range(runs):
        for part in range(10):
            stats: dict[str, Any] = {"hlo_op": "dot", "hlo_module": module, "program_id": 8, "run_id": 100 + number}
            worker.event("dot", round((number + part / 10) * run_ms * MS) + MS // 10, round(run_ms * MS / 10), **stats)
    for number in range(called):
        if mark_ms:
            loop.line.event("train", loop.at, round(mark_ms * MS), _r=1, step_num=30 + number)
        loop.jit("step", 0.5).wait(max(mark_ms - 0.5, 0.1))
    loop.at = max(loop.at, round(runs * run_ms * MS) + MS)
    return loop.jit("add", 0.1)


@pytest.mark.parametrize("called, ahead", [(0, True), (3, True), (4, True), (5, True), (10, True), (12, False)])
def test_steps_are_runs_whose_calls_lie_before_the_capture(called: int, ahead: bool) -> None:
    """`add` is the one call that ends the capture; with 10 of 12 calls, those that do not wait are
    replaced as ever.
    """
    loop = queued(runs=12, run_ms=60 if ahead else 0.6, called=called)
    steps = loop.steps()
    assert steps.async_dispatch is ahead
    assert steps.explanation.startswith("12 runs of step" if ahead else "12 calls of PjitFunction(step)")
    assert ("lacks most of its calls" in steps.explanation) is (called < 6)
    assert not ahead or durations(steps)[1:] == [60] * 11
    rows = loop.run.hosts[0].trace.find_rows_by_name(lambda name: name == "dot")
    assert not ahead or loop.run.hosts[0].step_index[rows].tolist() == [number for number in range(12) for _ in range(10)]


def test_a_run_that_the_capture_cuts_off_is_no_whole_step() -> None:
    loop = queued(runs=12, run_ms=60, called=0)
    worker = loop.space.plane("/host:CPU").line("tf_XLAPjRtCpuClient/1")
    for part in range(8):
        worker.event("dot", (721 + part) * MS, MS, hlo_op="dot", hlo_module="jit_step", program_id=8, run_id=200)
    steps = loop.steps()
    assert len(steps) == 13
    assert steps.complete.tolist() == [False, *[True] * 11, False]


@pytest.mark.parametrize("backward, function", [("step", "step"), ("other", "score")])
def test_of_programs_without_calls_the_one_with_gradients_is_the_step(backward: str, function: str) -> None:
    loop = queued(runs=12, run_ms=60, called=0)
    programs(loop, **{backward: BACKWARD})
    worker = loop.space.plane("/host:CPU").line("tf_XLAPjRtCpuClient/2")
    for number in range(9):
        worker.event("dot", number * 80 * MS, 79 * MS, hlo_op="dot", hlo_module="jit_score", run_id=500 + number)
        worker.event("dot", number * 80 * MS + 79 * MS, MS // 2, hlo_op="dot", hlo_module="jit_score", run_id=500 + number)
    worker.event("dot", 720 * MS, 60 * MS, hlo_op="dot", hlo_module="jit_score", run_id=600)
    assert f"runs of {function}," in loop.steps().explanation


def test_runs_side_by_side_are_of_several_devices_and_no_queue() -> None:
    loop = Loop()
    for device in range(2):
        worker = loop.space.plane("/host:CPU").line(f"tf_XLAPjRtCpuClient/{device}")
        for number in range(8):
            stats: dict[str, Any] = {"hlo_op": "dot", "hlo_module": "jit_step", "run_id": 10 * device + number}
            worker.event("dot", (60 * number + device) * MS, 50 * MS, **stats)
    assert not loop.wait(500).jit("add", 1).steps().async_dispatch


def test_a_lambda_is_called_by_another_name_than_its_program_has() -> None:
    loop = queued(runs=12, run_ms=1, called=0, module="jit__lambda_")
    loop.at = 0
    for _ in range(12):
        loop.jit("<lambda>", 1)
    assert not loop.steps().async_dispatch


@pytest.mark.parametrize(
    "runs, called, number", [(12, 12, range(30, 42)), (14, 12, range(28, 42)), (10, 12, range(30, 40))], ids=str
)
def test_marks_that_are_over_before_their_program_has_run_give_the_runs_their_numbers(
    runs: int, called: int, number: range
) -> None:
    steps = queued(runs, 60, called, mark_ms=0.6).steps()
    assert steps.async_dispatch
    assert steps.explanation == f"{runs} runs of step, each from the end of the one before: the 12 step markers are over before"
    assert durations(steps)[1:] == [60] * (runs - 1)
    assert steps.number.tolist() == list(number)
    assert steps.source is StepSource.MARKED and steps.confidence is Confidence.HIGH


@pytest.mark.parametrize("mark_ms, ahead", [(50, False), (45, True)])
def test_marks_that_last_nearly_as_long_as_a_run_stay(mark_ms: float, ahead: bool) -> None:
    """The limit is four fifths of a run of 60 ms, which is 48 ms."""
    steps = queued(12, 60, 12, mark_ms).steps()
    assert steps.async_dispatch is ahead
    assert steps.confidence is (Confidence.HIGH if ahead else Confidence.CERTAIN)
    assert steps.borderline == [] or "the usual mark" in steps.borderline[0]


def test_marks_of_several_calls_each_stay() -> None:
    loop = queued(12, 60, 0)
    for number in range(12):
        loop.line.event("train", loop.at, MS, _r=1, step_num=number)
        loop.jit("step", 0.4).jit("step", 0.4).wait(0.5)
    assert loop.steps().explanation.startswith("12 step markers")


def test_runs_of_programs_that_tensorflow_compiled_are_no_runs_of_a_call() -> None:
    """Neither `train_step` nor `cluster_0` is a name of JAX: that both name none of its functions
    makes them no pair.
    """
    loop = Loop()
    worker = loop.space.plane("/host:CPU").line("tf_XLAEigen/1")
    for number in range(20):
        worker.event("dot", number * 60 * MS, 60 * MS, hlo_op="dot", hlo_module="cluster_0", run_id=number)
        loop.call("train_step", 1)
    steps = loop.steps()
    assert not steps.async_dispatch
    assert "20 calls of train_step" in steps.explanation

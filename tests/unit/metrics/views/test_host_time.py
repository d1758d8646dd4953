"""What counts as computation on the host, told apart: on profiles whose every time is known."""

from __future__ import annotations

import pytest

from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.views.host_time import DISPATCH, EXECUTOR, FIRST_RUN, OPS, PYTHON, WAITING, host_time, mean_host_time
from outpace.model import Category
from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace

MS = 1_000_000_000
STEPS = 4
STEP = 10 * MS
Events = list[tuple[str, float, float]]  # name, start and end within the step, ms

MAIN: Events = [("step", 0.5, 9.5), ("TFE_Py_Execute", 1, 9)]
EXECUTES: Events = [("ExecutorState::Process", 2, 8), ("a/x:MatMul", 3, 6)]


def run_of(main: Events, *threads: Events) -> Run:
    """Steps of 10 ms: the training thread's events, and those of threads of the executor."""
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    line = plane.line("python")
    for number in range(STEPS):
        line.event("train", number * STEP, STEP, step_num=number, _r=1)
        line.event("FunctionRun", number * STEP, STEP, _pt=2, _p=number + 1)
        for name, start, end in main:
            line.event(name, number * STEP + int(start * MS), int((end - start) * MS))
    for at, events in enumerate(threads):
        other = plane.line(f"tf_Compute/{at}")
        for number in range(STEPS):
            for name, start, end in events:
                link = {"_ct": 2, "_c": number + 1} if name == events[0][0] else {}
                other.event(name, number * STEP + int(start * MS), int((end - start) * MS), **link)
    return Run.from_traces([read_trace(space.to_bytes(), "vm")])


def told(run: Run) -> dict[str, float]:
    """Time per step of each part, ms; they sum to the category."""
    found = {row["part"]: row["time_ps"] / MS for row in host_time(run).records()}
    assert sum(found.values()) == pytest.approx(step_breakdown(run).category_ps(Category.HOST_COMPUTE).mean() / MS)
    assert mean_host_time(run, "vm").compute_share == pytest.approx(sum(found.values()) * MS / STEP)
    return found


def test_ops_of_several_threads_have_a_moment_once() -> None:
    found = told(run_of(MAIN, EXECUTES, [("ExecutorState::Process", 5, 7), ("b/x:MatMul", 5, 7)]))
    assert found == pytest.approx({OPS: 4, EXECUTOR: 2, DISPATCH: 2, PYTHON: 1})


def test_an_op_that_waits_for_other_workers_does_not_run() -> None:
    stalls: Events = [("ExecutorState::Process", 2, 8), ("r/x:CollectiveReduceV2", 3, 6)]
    assert told(run_of(MAIN, stalls)) == pytest.approx({WAITING: 3, EXECUTOR: 3, DISPATCH: 2, PYTHON: 1})
    assert told(run_of(MAIN, stalls, EXECUTES))[OPS] == pytest.approx(3)


def test_a_thread_that_waits_for_ops_waits_for_nothing_else() -> None:
    main: Events = [*MAIN, ("block_until_ready", 1.5, 8.5)]
    assert told(run_of(main, EXECUTES)) == pytest.approx({OPS: 3, EXECUTOR: 3, WAITING: 1, DISPATCH: 1, PYTHON: 1})


def test_what_a_step_calls_that_builds_a_graph_runs_for_the_first_time() -> None:
    main: Events = [("step", 0.5, 9.5), ("tf.function-graph_building", 1, 3), ("TFE_Py_Execute", 3, 9)]
    executes: Events = [("ExecutorState::Process", 6, 8), ("a/x:MatMul", 6, 8)]
    assert told(run_of(main, executes)) == pytest.approx({FIRST_RUN: 4, OPS: 2, PYTHON: 1})


def test_an_op_that_runs_by_itself_runs() -> None:
    main: Events = [("TFE_Py_Execute", 1, 9), ("EagerLocalExecute: MatMul", 2, 8), ("KernelAndDeviceFunc::Run", 3, 7)]
    assert told(run_of(main)) == pytest.approx({OPS: 6, DISPATCH: 2})


def test_steps_without_computation_on_the_host_have_no_parts() -> None:
    assert not len(host_time(run_of([])))

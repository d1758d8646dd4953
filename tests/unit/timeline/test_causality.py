"""Each event has one partner: ids that come again lead to the event that has just happened, and 0
is no id.
"""

from __future__ import annotations

import pytest

from outpace.metrics.facts.input_iterators import iterator_graphs
from outpace.testing import GpuBuilder, SpaceBuilder, training_run
from outpace.timeline import Run, Timeline
from outpace.trace import read_trace

US = 1_000_000


def steps_with(copies: int, launch_id: int | None = None, run_id: int | None = None) -> Timeline:
    """Steps of 40 us, each of which calls a function on another thread and launches a kernel."""
    space = SpaceBuilder("vm")
    plane, gpu = space.plane("/host:CPU"), space.plane("/device:GPU:0").line("Stream #7(Kernel)")
    main, other = plane.line("python"), plane.line("tf_Compute")
    for step in range(copies):
        at = step * 40 * US
        call, run = (step + 1 if each is None else each for each in (launch_id, run_id))
        main.event("train", at, 40 * US, _r=1, step_num=step)
        main.event("FunctionRun", at, 30 * US, _pt=2, _p=run)
        main.event("cuLaunchKernel", at + US, US, correlation_id=call)
        other.event("ExecutorState::Process", at + 5 * US, 20 * US, _ct=2, _c=run)
        gpu.event("gemm", at + 10 * US, 8 * US, correlation_id=call)
    return Run.from_traces([read_trace(space.to_bytes())]).hosts[0]


def step_of(timeline: Timeline, name: str) -> list[int]:
    trace = timeline.trace
    return [int(timeline.step_index[row]) for row in trace.find_rows_by_name(lambda n: n == name)]


@pytest.mark.parametrize("ids", [{}, {"launch_id": 7}, {"run_id": 7}, {"launch_id": 7, "run_id": 7}])
@pytest.mark.parametrize("copies", [3, 100])
def test_the_step_of_an_event_does_not_depend_on_whether_ids_come_again(ids: dict[str, int], copies: int) -> None:
    timeline = steps_with(copies, **ids)
    assert step_of(timeline, "ExecutorState::Process") == list(range(copies))
    assert step_of(timeline, "gemm") == list(range(copies))


def test_0_launches_nothing() -> None:
    timeline = steps_with(10, launch_id=0)
    assert [len(rows) for rows in timeline.launches] == [0, 0]
    assert step_of(timeline, "gemm") == list(range(10))  # by their time


def test_a_launch_may_seem_to_come_after_its_kernel() -> None:
    space = SpaceBuilder("vm")
    host = space.plane("/host:CPU").line("python")
    GpuBuilder(space, host).kernel("gemm", 5 * US, 2 * US, called=6 * US)
    call, kernel = Run.from_traces([read_trace(space.to_bytes())]).hosts[0].launches
    assert (len(call), len(kernel)) == (1, 1)


@pytest.mark.parametrize("copies", [1, 5])
def test_an_element_goes_to_one_consumption_though_its_id_comes_again(copies: int) -> None:
    """Captures that were put one after the other, with the ids of the first in each."""
    space = SpaceBuilder("vm")
    plane = space.plane("/host:CPU")
    main, worker = plane.line("python"), plane.line("tf_data")
    for copy in range(copies):
        at = copy * 100 * US
        worker.event("Prefetch::Produce", at, 20 * US, element_id=5)
        worker.event("Iterator::Root::Prefetch::Map", at + US, 10 * US, id=3, parent_id=2)
        main.event("Iterator::Root", at + 30 * US, 10 * US, id=1)
        main.event("Iterator::Root::Prefetch", at + 31 * US, 8 * US, id=2, parent_id=1)
        main.event("Prefetch::Consume", at + 32 * US, US, element_id=5)
    graph = iterator_graphs(Run.from_traces([read_trace(space.to_bytes())]))["host"]
    trace = graph.trace
    linked = [
        (int(c), int(e))
        for c, e in zip(graph.rows[graph.cause], graph.rows[graph.effect], strict=True)
        if trace.line[c] != trace.line[e]
    ]
    assert [int(trace.start[effect]) // (100 * US) for _, effect in linked] == list(range(copies))
    assert [int(trace.start[cause]) // (100 * US) for cause, _ in linked] == list(range(copies))
    assert graph.calls.count.tolist() == [1] * (3 * copies)


def test_no_iterator_has_two_callers() -> None:
    graph = iterator_graphs(Run.from_traces([read_trace(training_run(steps=20).to_bytes())]))["host"]
    assert len(set(graph.effect.tolist())) == len(graph.effect)

"""Ops of XLA on a CPU that go on after their event."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.metrics.facts.hlo_instructions import divide_op_times
from outpace.metrics.facts.model_ops import COMPILED
from outpace.metrics.views.host_time import OPS, mean_host_time
from outpace.metrics.views.model_parts import model_parts
from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.timeline.xla_threads import find_continuations, find_hlo_events
from outpace.trace import Trace, read_trace
from tests.support import opened

MS = 1_000_000_000


Event = tuple[int, str, float, float]  # thread, name, start in ms, length in ms


def threads(*events: Event) -> Trace:
    """Events of XLA's threads."""
    space = SpaceBuilder("vm")
    plane = space.plane("/host:CPU")
    lines = [plane.line(f"tf_XLAEigen/{number}") for number in range(2)]
    for thread, name, start, length in events:
        if name.startswith(("end: ", "ThunkExecutor")):
            lines[thread].event(name, round(start * MS), round(length * MS))
        else:
            lines[thread].event(name, round(start * MS), round(length * MS), hlo_op=name, hlo_module="jit_step")
    return read_trace(space.to_bytes(), "vm")


def found(trace: Trace) -> dict[str, tuple[int, int]]:
    """(start, end) of what each op did after its event, ms."""
    later = find_continuations(trace)
    names = [trace.names[code] for code in trace.name[later.row].tolist()]
    return dict(zip(names, zip((later.start // MS).tolist(), (later.end // MS).tolist(), strict=True), strict=True))


CONVOLUTION = (0, "convolution.1", 0, 2)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([(0, "end: convolution.1", 2, 0)], {}, id="an op that its own thread computes"),
        pytest.param([(1, "end: convolution.1", 7, 0)], {"convolution.1": (2, 7)}, id="an op for which none waits"),
        pytest.param(
            [
                (1, "ThunkExecutor::Execute", 10, 3),
                (1, "fusion", 10, 2),
                (1, "end: fusion", 12, 0),
                (1, "end: convolution.1", 13.001, 0),
            ],
            {"convolution.1": (2, 10)},
            id="the thread that completes it runs the next op first",
        ),
        pytest.param(
            [(1, "ThunkExecutor::Execute", 0, 1), (1, "end: convolution.1", 7, 0)],
            {"convolution.1": (2, 7)},
            id="an executor from before is another op's",
        ),
        pytest.param([], {}, id="the capture ended before it"),
        pytest.param(
            [(1, "end: convolution.1", 7, 0), (0, "convolution.1", 20, 2), (1, "end: convolution.1", 22, 0)],
            {"convolution.1": (2, 7)},
            id="its next run is another",
        ),
        pytest.param(
            [(1, "fusion", 10, 3), (1, "end: fusion", 13.001, 0), (1, "end: convolution.1", 13.002, 0)],
            {"convolution.1": (2, 10)},
            id="in a loop no executor is around the next op",
        ),
        pytest.param(
            [(0, "ThunkExecutor::Execute", 50, 3), (1, "end: convolution.1", 7, 0)],
            {"convolution.1": (2, 7)},
            id="an executor of another thread",
        ),
        pytest.param(
            [(1, "ThunkExecutor::Execute", 3, 1), (1, "end: convolution.1", 60, 0)],
            {"convolution.1": (2, 60)},
            id="an executor from long before",
        ),
        pytest.param(
            [(1, "convolution.1", 3, 1), (1, "end: convolution.1", 4.001, 0), (1, "end: convolution.1", 9, 0)],
            {"convolution.1": (2, 3)},
            id="of two in flight, each has its own mark, and none lasts into the next",
        ),
    ],
)
def test_an_op_lasts_until_its_last_task(events: list[Event], expected: dict[str, tuple[int, int]]) -> None:
    assert found(threads(CONVOLUTION, *events)) == expected


def test_lengths_are_by_event() -> None:
    trace = threads(CONVOLUTION, (0, "dot", 3, 1), (0, "end: dot", 4, 0), (1, "end: convolution.1", 7, 0))
    later = find_continuations(trace)
    rows = np.array([trace.find_rows_by_name(lambda name, op=op: name == op)[0] for op in ("dot", "convolution.1")])
    assert later.lengths(rows).tolist() == [0, 5 * MS]


def test_work_of_threads_belongs_to_the_op_that_they_compute() -> None:
    """TensorFlow's thread waits while XLA's pool convolves: a third of the step had no op."""
    parts = {row["part"]: row["share"] for row in model_parts(opened("keras_fit_xla").run).records()}
    assert parts[COMPILED] < 0.05
    assert sum(share for part, share in parts.items() if "conv" in part) > 0.35


@pytest.mark.parametrize("beside", [False, True])
def test_a_moment_is_divided_among_the_ops_that_run(beside: bool) -> None:
    """A convolution that goes on for 5 ms, in 3 of which another thread runs a product, or none."""
    events = [
        CONVOLUTION,
        (1, "dot", 3, 3 if beside else 0),
        (1, "end: dot", 6 if beside else 3, 0),
        (0, "end: convolution.1", 7, 0),
    ]
    trace = threads(*events)
    timeline = Run.from_traces([trace]).hosts[0]
    rows = find_hlo_events(trace)
    later = find_continuations(trace)
    times = dict(
        zip(
            (trace.names[code] for code in trace.name[rows].tolist()),
            divide_op_times(timeline, rows, later).tolist(),
            strict=True,
        )
    )
    assert times == {"convolution.1": (5.5 if beside else 7) * MS, "dot": 1.5 * MS if beside else 0}
    alone = divide_op_times(timeline, rows, later.of_rows(rows[1:]))
    assert alone.sum() == (5 if beside else 2) * MS, "what a loop starts is left out"


def test_a_jax_program_computes_while_its_threads_do() -> None:
    run = opened("jax_loop_unmarked").run
    assert mean_host_time(run, *run.by_host).shares[OPS] > 0.7, "0.63 by the events alone"

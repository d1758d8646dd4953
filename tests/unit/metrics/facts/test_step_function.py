"""Which functions make a step that also evaluates, and that such a step is one."""

from __future__ import annotations

import pytest

from outpace.metrics.facts.step_function import step_function_rows
from outpace.testing import SpaceBuilder
from outpace.timeline import Timeline
from outpace.trace import read_trace

MS = 1_000_000_000


def evaluating(trained: bool = True) -> Timeline:
    """Four steps of 20 ms, each with a call that trains and five that evaluate, whose batches a
    loop of Python reads.
    """
    space = SpaceBuilder("vm")
    line = space.plane("/host:CPU").line("python")
    for number in range(4):
        at = 20 * MS * number
        line.event("train", at, 20 * MS, step_num=number, _r=1)
        line.event("update", at, 2 * MS, tf_function_call="notTraced-nonXla")
        line.event("gradient_tape/MatMul:MatMul" if trained else "MatMul:MatMul", at, MS)
        for call in range(5):
            read = at + (2 + 3 * call) * MS
            line.event("EagerLocalExecute: IteratorGetNext", read, MS)
            line.event("IteratorGetNextOp::DoCompute", read, MS // 2)
            line.event("Iterator::Root::Batch", read, MS // 4, id=7)
            line.event("evaluate", read + MS, 2 * MS, tf_function_call="notTraced-nonXla")
    return Timeline(read_trace(space.to_bytes(), "vm"))


@pytest.mark.parametrize(("trained", "name"), [(True, "update"), (False, "evaluate")])
def test_what_trains_makes_the_step(trained: bool, name: str) -> None:
    timeline = evaluating(trained)
    rows = step_function_rows(timeline)
    assert {timeline.trace.names[row] for row in timeline.trace.name[rows]} == {name}


def test_batches_that_python_reads_are_no_steps_of_one_call() -> None:
    assert evaluating().steps.steps_per_execution == 1

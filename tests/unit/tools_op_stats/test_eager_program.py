"""A program in which nothing runs in a graph: its profile holds dispatches alone, and no event of
an op.
"""

from __future__ import annotations

from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.tools.op_stats.page import analyse
from outpace.trace import read_trace

MS = 1_000_000_000


def test_it_hears_that_its_ops_run_one_by_one() -> None:
    space = SpaceBuilder()
    line = space.plane("/host:CPU").line("python")
    for number in range(200):
        op = ("MatMul", "Tanh", "MatMul", "Sub")[number % 4]
        line.event("EagerExecute", number * MS, MS * 9 // 10, is_func=0, eager_op=op)
    page = analyse(Run.from_traces([read_trace(space.to_bytes(), "vm")]))
    assert page.unavailable is None
    assert [finding.id for finding in page.findings] == ["eager_ops"]
    assert "MatMul" in page.headline


def test_a_program_of_functions_alone_is_not_called_eager() -> None:
    space = SpaceBuilder()
    line = space.plane("/host:CPU").line("python")
    for number in range(10):
        line.event("EagerExecute", number * MS, MS, is_func=1, eager_op="__inference_step_1")
        line.event("dense/MatMul:MatMul", number * MS, 0)
    assert "one by one" not in analyse(Run.from_traces([read_trace(space.to_bytes(), "vm")])).headline

"""Instants that a runtime notes hold no time of a step."""

from __future__ import annotations

from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.model import Category
from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace

MS = 1_000_000_000
STEP = 10 * MS


def test_pythons_time_after_an_instant_is_no_work() -> None:
    """Steps of 10 ms: an op for 4, an instant, Python for 6; and another instant, which the
    reference takes for the end of the first.
    """
    space = SpaceBuilder("vm")
    line = space.plane("/host:CPU").line("python")
    for step in range(5):
        begin = step * STEP
        line.event("train", begin, STEP, step_num=step, _r=1)
        line.event("a/Mul:Mul", begin, 4 * MS)
        line.event("done", begin + 4 * MS, 0)
        line.event("done", begin + 9 * MS, 0)
    table = step_breakdown(Run.from_traces([read_trace(space.to_bytes(), "vm")])).steps
    assert set(table[f"{Category.HOST_COMPUTE.value}_ps"].tolist()) == {4 * MS}
    assert set(table[f"{Category.ALL_OTHERS.value}_ps"].tolist()) == {6 * MS}

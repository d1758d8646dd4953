"""More work, or the same work slower."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from outpace.compare.line_work import LineWork, build_line_work, compute_line_work
from tests.support import opened

LINE = LineWork("jit(step)/dot_general", "train.py:7", 4e9, 2e9, 1e6, 0.5)
UNKNOWN = replace(LINE, flops=math.nan)


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (LINE, "the same work"),
        (replace(LINE, time_ps=8e9), "the same work"),
        (replace(LINE, flops=4e9), "2 times the operations"),
        (replace(LINE, flops=4e9, bytes=3e6), "2 times the operations; 3 times the bytes"),
        (replace(LINE, flops=2e9 * (1 + 1e-6)), "the same work"),
        (UNKNOWN, ""),
        (replace(UNKNOWN, bytes=2e6), "2 times the bytes"),
    ],
    ids=["equal", "slower", "more operations", "more of both", "rounding", "not counted", "not counted, more bytes"],
)
def test_what_became_of_a_line(after: LineWork, says: str) -> None:
    row = next(build_line_work([LINE], [after]).records())
    assert row["work"] == says
    assert row["more_ps"] == after.time_ps - LINE.time_ps


def test_lines_are_the_same_by_op_and_order() -> None:
    """An edit above them moves both."""
    before = [LINE, replace(LINE, source="train.py:12", flops=6e9)]
    after = [replace(line, source=f"train.py:{number}") for line, number in zip(before, (9, 14), strict=True)]
    rows = list(build_line_work(reversed(before), after).records())
    assert [(row["source"], row["work"]) for row in rows] == [("train.py:9", "the same work"), ("train.py:14", "the same work")]


def test_a_new_line_leaves_those_below_it_as_they_are() -> None:
    before = [replace(LINE, source="m.py:10", flops=1e9), replace(LINE, source="m.py:20", flops=3e9)]
    rows = build_line_work(before, [replace(LINE, source="m.py:5", flops=1e8), *before]).records()
    assert {row["source"]: row["work"] for row in rows} == {
        "m.py:5": "new",
        "m.py:10": "the same work",
        "m.py:20": "the same work",
    }


def test_a_line_of_one_side_is_new_or_gone() -> None:
    other = replace(LINE, op="jit(step)/sort")
    assert {row["op"]: row["work"] for row in build_line_work([LINE], [LINE, other]).records()} == {
        LINE.op: "the same work",
        other.op: "new",
    }
    assert next(build_line_work([LINE], [other]).records())["work"] in ("gone", "new")
    assert len(build_line_work([], [LINE])) == 0, "a baseline has no lines"


def test_a_profile_does_its_own_work() -> None:
    lines = compute_line_work(opened("jax_h100_ok_vae").run)
    counted = sum(line.flops for line in lines if line.flops == line.flops)
    assert counted == pytest.approx(32.5e12, rel=0.01), "by the sizes of its layers"
    assert {row["work"] for row in build_line_work(lines, lines).records()} <= {"the same work", ""}
    assert compute_line_work(opened("custom_loop").run) == ()

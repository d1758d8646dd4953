"""Lines of Python on both sides of a comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from outpace.compare import Comparison, Side, Verdict, compare
from outpace.compare.changes import Change, ChangeKind
from outpace.compare.flame import build_flame_graph
from outpace.compare.line_changes import compute_line_changes, find_main_line
from outpace.compare.page import build_page
from outpace.timeline import Run
from tests.unit.compare.sides import side
from tests.unit.metrics.python.test_python_time import FIT, MS, NOTE, SORT, STACKS, TEXT, run_of

SOURCES = [*TEXT, (2, 31, "note = {}"), (2, 32, "numpy.sort(self.all)")]


def sampled(notes: float, sorts: float, stacks: list[Any] = STACKS, sources: list[Any] = SOURCES) -> Run:
    """A run of 16 steps of the steady state whose 3 ms of Python are two lines of a callback in
    some measure, and else the call of `fit`.
    """
    steps = run_of([(1.0, FIT)]).hosts[0].steps
    moments = [float(steps.start[at] / MS) + 2.05 + 0.1 * part for at in steps.steady_rows for part in range(29)]
    shares = [
        (NOTE if (at % 29) / 29 < notes else SORT if (at % 29) / 29 < notes + sorts else FIT) for at in range(len(moments))
    ]
    run = run_of(list(zip(moments, shares, strict=True)))
    run.record("vm")["python_samples"].update(stacks=stacks, text=sources)
    return run


def compared(before: Run, after: Run) -> Comparison:
    return compare(Side.from_runs("before", before), Side.from_runs("after", after))


def by_text(changes: tuple[Change, ...]) -> dict[str, Change]:
    return {each.part[1]: each for each in changes}


def test_a_line_that_is_new_is_named_with_its_time() -> None:
    found = compared(sampled(0.3, 0.0), sampled(0.3, 0.5))
    changes = by_text(compute_line_changes(found))
    new, same = changes["numpy.sort(self.all)"], changes["note = {}"]
    assert compute_line_changes(found)[0] in (new, changes["model.fit(data)"])
    assert new.kind is ChangeKind.NEW and new.before.value == 0 and new.part[2] == "train.py:32 Noter.on_batch_end"
    assert new.low_ps < new.delta_ps < new.high_ps and new.after.value > 4 * same.after.value / 3
    assert same.kind is ChangeKind.MACHINE and same.low_ps < 0 < same.high_ps


def test_a_line_that_stands_elsewhere_is_the_same() -> None:
    lower = [[(frame, line + 5 if frame == 2 else line) for frame, line in stack] for stack in STACKS]
    found = compared(
        sampled(0.3, 0.3),
        sampled(0.3, 0.3, lower, [(frame, line + 5 if frame == 2 else line, text) for frame, line, text in SOURCES]),
    )
    note = by_text(compute_line_changes(found))["note = {}"]
    assert (note.part[2], note.name_after) == ("train.py:31 Noter.on_batch_end", "train.py:36 Noter.on_batch_end")
    assert note.kind is ChangeKind.MACHINE and note.before.value == pytest.approx(note.after.value)


def test_lines_lie_in_the_time_that_no_op_stands_for() -> None:
    found = compared(sampled(0.3, 0.4), sampled(0.3, 0.0))
    rows = {row["id"]: row for row in build_flame_graph(found, compute_line_changes(found)).table.records()}
    gaps = rows["Python and gaps/All others"]
    own = [row for row in rows.values() if row["parent"] == gaps["id"]]
    assert {row["name"] for row in own} == {each.name_after for each in compute_line_changes(found)}
    assert [row["name"] for row in own if row["gone"]] == ["train.py:32 Noter.on_batch_end"]
    assert gaps["before_ps"] == next(each.before.value for each in found.changes if each.part[2] == "All others")
    assert sum(row["time_ps"] for row in own if not row["gone"]) <= gaps["time_ps"] * (1 + 1e-9)
    assert "lines" in {table.name for table in build_page(found).tables()}


def test_the_line_that_makes_most_of_a_change_beside_the_ops_is_named() -> None:
    found = compared(sampled(0.3, 0.0), sampled(0.3, 0.5))
    gaps = next(each for each in found.changes if each.part[2] == "All others")
    more, less = replace(gaps, delta_ps=1e9), replace(gaps, delta_ps=-1e9)
    line = find_main_line(more, compute_line_changes(found))
    assert line is not None and line.label == "train.py:32 Noter.on_batch_end"
    assert find_main_line(less, [line]) is None and find_main_line(replace(more, part=("Host", "MatMul", "a")), [line]) is None


def test_without_samples_on_both_sides_there_are_none() -> None:
    found = compared(run_of([]), sampled(0.3, 0.4))
    assert compute_line_changes(found) == () and "lines" not in {table.name for table in build_page(found).tables()}
    assert not [row for row in build_flame_graph(found, ()).table.records() if "train.py" in row["name"]]


def test_several_captures_have_their_own_spread() -> None:
    one, two = (
        side(name, [Side.from_runs("", sampled(share, 0.2)).captures[0] for share in shares])
        for name, shares in (("before", (0.2, 0.3, 0.4)), ("after", (0.24, 0.32, 0.36)))
    )
    found = compare(one, two)
    note = by_text(compute_line_changes(found))["note = {}"]
    assert note.before.error > 0 and note.before.freedom > note.after.freedom - 1
    assert note.before.value == pytest.approx(note.after.value, rel=0.1)


def test_lines_that_are_new_say_whose_the_time_is() -> None:
    """Python that takes more may be a slower machine's, unless a line is there that was not: no
    machine writes one.
    """
    one, two = Side.from_runs("before", sampled(0.6, 0.0)), Side.from_runs("after", sampled(0.4, 0.4))
    (capture,) = two.captures
    gaps = ("Step", "All others", "All others")
    (line,) = (each for each in capture.lines if each.code == "numpy.sort(self.all)")
    parts = {**capture.part_ps, gaps: capture.part_ps[gaps] + line.time_ps}
    slow = replace(capture, part_ps=parts, step_ps=capture.step_ps + line.time_ps)
    plain = replace(slow, lines=tuple(each for each in slow.lines if each is not line))
    told, untold = (compare(one, side("after", [each])) for each in (slow, plain))
    (sure,), unsure = ([each for each in found.changes if each.part == gaps] for found in (told, untold))
    assert sure.kind is ChangeKind.CHANGED and sure.high_ps - sure.low_ps < 0.8 * (unsure[0].high_ps - unsure[0].low_ps)
    assert told.verdict is Verdict.SLOWER and told.program_share.value == pytest.approx(
        line.time_ps / one.step_time.value, rel=0.3
    )

"""How long a run is followed behind its training, and what is looked at in other surroundings."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from outpace.model.errors import TuneError
from outpace.tune.same.changes import TraceRead
from outpace.tune.same.clock import ClockSetting
from outpace.tune.same.judgement import Judgement, Standing
from outpace.tune.same.passes import END
from outpace.tune.same.prove import BEHIND, QUIET, Original
from outpace.tune.same.record import CUT_SHORT, Record
from outpace.tune.same.state import State
from outpace.tune.texts.place import FIT, Place


def original(*, ended: str, over: bool, told: float) -> Original:
    """A script whose first run is over."""
    found = Original("train.py")
    first: Future[Record] = Future()
    first.set_result(Record({}, {}, (), ended, over=over, told=told))
    found._runs[found._surroundings, False] = first
    return found


@pytest.mark.parametrize(
    ("ended", "over", "seconds"),
    [(CUT_SHORT, True, 4.0 + QUIET), ("", True, BEHIND), (CUT_SHORT, False, BEHIND), ("ValueError: no", True, BEHIND)],
    ids=["cut behind its training", "to its end", "cut in its training", "failed"],
)
def test_nobody_waits_longer_than_the_first_run_said_something(ended: str, over: bool, seconds: float) -> None:
    assert original(ended=ended, over=over, told=4.0)._behind(False) == seconds


def test_it_is_never_longer_than_the_first_one_got() -> None:
    assert original(ended=CUT_SHORT, over=True, told=BEHIND - 1.0)._behind(False) == BEHIND


def test_a_run_that_only_counts_passes_is_not_followed() -> None:
    assert Original("train.py")._behind(True) == QUIET
    assert Original("train.py")._behind(False) == BEHIND


class Runs(Original):
    """A `fit` whose runs are as a function has it. asked: of each run the draw, and whether it is
    edited and nudged. missed: lines that do not run.
    """

    missed: tuple[int, ...] = ()

    of: Callable[[int, bool, bool], Record]

    def __init__(self, of: Callable[[int, bool, bool], Record]) -> None:
        super().__init__("train.py", place=Place(FIT))
        self.of, self.asked, self.clocks = of, list[tuple[int, bool, bool]](), set[ClockSetting]()

    def _missed(self, one: Record) -> list[int]:
        return [*self.missed]

    def _run(self, texts: Any, *args: Any, nudge: int | None = None, around: Any = None, **more: Any) -> Record:
        self.clocks.add((around or self._surroundings).clock)
        run = (around or self._surroundings).draw, bool(texts), nudge is not None
        self.asked += [] if "surveyed" in more else [run]
        return self.of(*run)


def record(draw: int, off: float = 0.0, passes: int = 8, ended: str = "") -> Record:
    marks = {
        ("batch", 1, at): State(
            {"model.w": (1.0 + draw) * np.linspace(1.0, 2.0, 4) * (8 if at == END else at) * (1.0 + off)}, {}, {}
        )
        for at in (1, 2, 8, END)
    }
    return Record(marks, {"0": passes}, (), ended, made=passes, over=ended != CUT_SHORT)


def confirmed(
    of: Callable[[int, bool, bool], Record], seconds: float = math.inf, missed: tuple[int, ...] = ()
) -> tuple[Judgement, Runs]:
    """What is said of an edited text, within some seconds."""
    runs = Runs(of)
    runs._took, runs.missed = 4.0, missed
    with runs:
        return runs.confirmed({__file__: ""}, is_exact=True, seconds=seconds), runs


def test_what_is_proven_is_looked_at_with_another_draw_and_clock() -> None:
    found, runs = confirmed(lambda draw, edited, nudged: record(draw))
    assert found.standing is Standing.PROVEN
    assert runs.asked.count((0, True, False)) == runs.asked.count((1, True, False)) == runs.asked.count((1, False, False)) == 1


def test_what_another_draw_changes_is_another_program() -> None:
    found, _ = confirmed(lambda draw, edited, nudged: record(draw, off=0.1 * draw * edited))
    assert found.same is False
    assert found.why.startswith("With other random numbers and another clock, it is another program: ")


def test_rounding_is_told_from_it_by_a_nudged_run_of_that_draw() -> None:
    """It is chaotic with that one."""
    found, runs = confirmed(lambda draw, edited, nudged: record(draw, off=1e-3 * draw * (edited + nudged)))
    assert found.standing is Standing.PROVEN and (1, False, True) in runs.asked and (0, False, True) not in runs.asked


def test_a_nudged_run_begins_beside_an_edited_one_that_rounds() -> None:
    runs = Runs(lambda draw, edited, nudged: record(draw))
    with runs:
        assert runs.against({__file__: ""}).same is True
        assert len([each.result() for each in runs._runs.values()]) == 2
        assert sorted(runs.asked) == [(0, False, False), (0, False, True), (0, True, False)]


def test_what_is_another_program_at_once_is_not_looked_at_again() -> None:
    found, runs = confirmed(lambda draw, edited, nudged: record(draw, off=0.1 * edited))
    assert found.same is False and not any(draw for draw, *_ in runs.asked)


def test_where_chance_or_the_clock_decides_how_long_it_is_nothing_is_proven() -> None:
    found, _ = confirmed(lambda draw, edited, nudged: record(draw, passes=8 + draw))
    assert found.standing is Standing.COMPARED
    assert found.omissions == ("how many passes its loops make (chance or the clock decides)",)


@pytest.mark.parametrize("off", [0.0, 0.1])
def test_what_hangs_on_the_clock_is_not_proven(off: float) -> None:
    """A script that takes a smaller batch when a step was slow."""
    runs: list[int] = []

    def of(draw: int, edited: bool, nudged: bool) -> Record:
        runs.append(draw)
        by_other_clock = not draw and 1 in runs
        return replace(record(draw, off * by_other_clock), readings=9)

    found, asked = confirmed(of)
    assert found.omissions == (("what training makes of the time (an edited script is faster)",) if off else ())
    assert asked.asked[-1] == (0, False, False) and len(asked.clocks) == 2


@pytest.mark.parametrize(("drawn", "readings"), [(0, 0), (1, 0), (0, 3), (1, 3)])
def test_what_is_proven_says_what_it_holds_for(drawn: int, readings: int) -> None:
    """Numbers that a script does not seed, and times that it reads."""
    found, _ = confirmed(lambda draw, edited, nudged: replace(record(drawn * draw), readings=readings))
    assert found.standing is Standing.PROVEN
    assert ("with two draws of the random numbers that it does not seed" in found.sentence) == bool(drawn)
    assert ("but for the times that it reads" in found.sentence) == bool(readings)


@pytest.mark.parametrize("draws", [0, 1])
def test_a_branch_that_no_run_took_is_left_out_where_chance_may_decide_about_it(draws: int) -> None:
    found, _ = confirmed(lambda draw, edited, nudged: record(draws * draw), missed=(12, 15))
    said = "line 12, 15 (it did not run, and chance or the clock may decide about it)"
    assert found.omissions == ((said,) if draws else ())


def test_without_time_for_it_nothing_is_proven() -> None:
    found, runs = confirmed(lambda draw, edited, nudged: record(draw), seconds=8.0)
    assert found.standing is Standing.COMPARED and not any(draw for draw, *_ in runs.asked)
    assert found.omissions == ("other random numbers and another clock (there was no time for it)",)


def test_passes_that_only_one_original_made_were_not_compared() -> None:
    """Its length stays that of the training, and what the other passes may show is to be read."""

    def of(draw: int, edited: bool, nudged: bool) -> Record:
        found = record(draw, 1e-7 * (edited + nudged), ended=CUT_SHORT if nudged else "")
        return (
            replace(found, made=3, marks={key: each for key, each in found.marks.items() if key[2] != END}) if nudged else found
        )

    with Runs(of) as runs:
        found = runs.against({__file__: ""})
    assert (found.same, found.whole, found.made, found.length) == (True, False, 3, 8)
    assert found.extent == "3 of 8 passes" and found.standing is Standing.COMPARED


@pytest.mark.parametrize("fails", [True, False])
def test_without_an_end_there_nothing_is_proven(fails: bool) -> None:
    def of(draw: int, edited: bool, nudged: bool) -> Record:
        if draw and fails:
            raise TuneError("A run to compare with ended without a result: killed")
        return record(draw, ended=CUT_SHORT if draw else "")

    found, _ = confirmed(of)
    assert found.standing is Standing.COMPARED and len(found.omissions) == 1
    assert found.omissions[0].startswith("other random numbers and another clock (")


@pytest.mark.parametrize("draws", [0, 1])
def test_what_a_compiled_function_keeps_is_left_out_where_chance_may_change_it(
    draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {TraceRead("scale", "step", "scale"): ["train.py:9"], TraceRead("SIZE", "step", "SIZE"): []}
    monkeypatch.setattr(Original, "_lines_by_read", lambda *_: kept)
    found, _ = confirmed(lambda draw, edited, nudged: record(draws * draw))
    assert found.omissions == (("scale, which step keeps and train.py:9 may change",) if draws else ())

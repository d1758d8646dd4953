"""What the report says of decisions about steps that were near: a value beside a limit is told, one
that is far from it is not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import outpace
from outpace.report import json_, terminal
from outpace.testing import training_run
from outpace.timeline import steady_state
from outpace.timeline.limit_checks import LimitCheck, describe_borderline
from tests.unit.timeline.loops import MS, Loop
from tests.unit.timeline.test_executions import handed_over

CALM = (10.0, 11, 10, 9, 10, 10, 11, 10, 10, 9, 10)


def told(*milliseconds: float) -> list[str]:
    decisions: list[LimitCheck] = []
    steady_state.find_exclusions(np.array(milliseconds) * MS, np.ones(len(milliseconds), bool), decisions)
    return describe_borderline(decisions)


@pytest.mark.parametrize(
    "times, sentence",
    [
        ((14.7, *CALM), "a leading step of 1.47 times the median was kept; from 1.5 it would be left out (warm-up)"),
        ((15.3, *CALM), "a leading step of 1.53 times the median was left out (warm-up); below 1.5 it would be kept"),
        ((90, 15.3, *CALM), "a leading step of 1.53 times the median was left out (warm-up); below 1.5 it would be kept"),
        ((5.2, *CALM), "a leading step of 0.52 times the median was kept; below 0.5 it would be left out (fed from buffers)"),
        ((4.8, *CALM), "a leading step of 0.48 times the median was left out (fed from buffers); from 0.5 it would be kept"),
        ((*CALM, 14.7), "the slowest step, 1.47 times the median, was kept; from 1.5 it would be left out (one-off)"),
        ((*CALM, 15.3), "the slowest step, 1.53 times the median, was left out (one-off); below 1.5 it would be kept"),
        (
            (*CALM, 40, 10, 14.7),
            "the second slowest step, 1.47 times the median, was no outlier, and the slowest left out; from 1.5 it would be an outlier "
            "too",
        ),
        (
            (*CALM, 90, 10, 15.3),
            "the second slowest step, 1.53 times the median, was an outlier too; below 1.5 it would be no outlier, and the slowest left out",
        ),
        (
            (*CALM, 30, 28, *CALM),
            "the mean step, 1.16 times the median, was that of steps without the slow ones, left out (slow); below 1.15 it would be kept, "
            "slow ones too",
        ),
    ],
)
def test_a_step_beside_the_limit_of_the_steady_state_is_told(times: tuple[float, ...], sentence: str) -> None:
    assert told(*times) == [sentence]


@pytest.mark.parametrize(
    "times",
    [
        CALM,
        (13, *CALM),
        (17, *CALM),
        (900, 300, *CALM),
        (2, *CALM),
        (*CALM, 13),
        (*CALM, 17),
        (*CALM, 40, 15.3, 15.3),
        (14.7, 10, 10),
        (),
    ],
)
def test_what_is_far_from_every_limit_is_not_told(times: tuple[float, ...]) -> None:
    """Three outliers come again, whether or not one of them is none; of three steps none can be
    told from the others.
    """
    assert told(*times) == []


def test_of_several_steps_beside_one_limit_the_nearest_is_told() -> None:
    assert told(90, 16, 15.1, *CALM) == [
        "a leading step of 1.51 times the median was left out (warm-up); below 1.5 it would be kept"
    ]


def test_what_another_limit_would_change_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of captures in which a limit that is a little higher or lower gives another steady state,
    nearly all say so, and few others do.
    """
    chance, limit = np.random.default_rng(1), steady_state.outlier_limit
    changes = said = both = 0
    for _ in range(1500):
        times = 10 * chance.lognormal(0, chance.choice([0.02, 0.1, 0.4]), 16)
        times[chance.integers(0, 16)] *= chance.uniform(1, 3)
        times[: chance.integers(0, 4)] *= 1.6
        found = []
        for factor in (1, 0.905, 0.95, 1.05, 1.095):
            monkeypatch.setattr(steady_state, "outlier_limit", lambda some, factor=factor: factor * limit(some))
            found.append(steady_state.find_exclusions(times, np.ones(16, bool), []))
        monkeypatch.setattr(steady_state, "outlier_limit", limit)
        changed = any(other != found[0] for other in found)
        tells = any("buffers" not in sentence for sentence in told(*times))
        changes, said, both = changes + changed, said + tells, both + (changed and tells)
    assert changes > 200
    assert both >= 0.97 * changes
    assert both >= 0.85 * said


def eager(share: float) -> Loop:
    """A loop of ops, and of a function that takes a share of their time."""
    loop = Loop()
    for _ in range(8):
        loop.call("small", 10 * share)
        for op, ms in (("MatMul", 6), ("Relu", 4)):
            loop.event("EagerExecute", ms, eager_op=op, is_func=0)
        loop.wait(2)
    return loop


@pytest.mark.parametrize(
    "share, sentences",
    [
        (0.02, []),
        (
            0.047,
            [
                "the call that repeats, 4.7% of the time of its thread's ops, was passed over; from 5.0% it would be taken for the step"
            ],
        ),
        (
            0.053,
            [
                "the call that repeats, 5.3% of the time of its thread's ops, was taken for the step; below 5.0% it would be passed over"
            ],
        ),
        (0.1, []),
    ],
)
def test_a_function_that_is_hardly_what_an_eager_loop_repeats(share: float, sentences: list[str]) -> None:
    assert eager(share).steps().borderline == sentences


@pytest.mark.parametrize("every, tells", [(4, True), (8, False), (1, False)])
def test_an_evaluation_that_comes_so_often_that_it_might_be_a_part(every: int, tells: bool) -> None:
    loop = Loop()
    for number in range(41):
        loop.call("train_step", 5).wait(1)
        if number % every == every - 1:
            loop.call("evaluate", 2)
    sentence = (
        "a call with other calls than usual before 25.0% of its repetitions was taken for the step; from 26.0% it would be "
    )
    assert loop.steps().borderline == [f"{sentence}taken for a part of one"] * tells


@pytest.mark.parametrize("odd, tells", [(0, False), (5, False), (11, True), (12, True), (30, False)])
def test_a_round_that_is_hardly_one(odd: int, tells: bool) -> None:
    """Rounds of two `forward` and an `apply`, with something else in some places."""
    loop = Loop()
    for number in range(60):
        loop.jit("forward", 5).jit("forward", 5)
        loop.jit(f"other{number}" if number < odd else "apply", 1)
    sentences = loop.steps().borderline
    assert bool(sentences) is tells, sentences
    assert all(s.startswith("a sequence, ") and "of which does not come again one round later, was " in s for s in sentences)


@pytest.mark.parametrize("run_ms, tells", [(10, False), (12.3, True), (12.7, True), (14, False)])
def test_calls_and_runs_that_hardly_agree(run_ms: float, tells: bool) -> None:
    steps = handed_over(runs=20, run_ms=run_ms, call_ms=10).steps()
    outcome = ("was kept; from 20.0%", "was replaced by that of the runs; below 20.0%")[steps.async_dispatch]
    assert bool(steps.borderline) is tells
    assert all(outcome in sentence for sentence in steps.borderline)


@pytest.mark.parametrize("lacks, sentence", [(0, ""), (1, "counted as whole; above 10.0%"), (5, "")])
def test_a_first_step_that_lacks_a_little(lacks: int, sentence: str) -> None:
    loop = Loop()
    for number in range(6):
        for kind in range(9 if number else 9 - lacks):
            loop.event(f"work{8 - kind}", 1)
        loop.call("train_step", 4).wait(1)
    found = loop.steps().borderline
    assert len(found) == bool(sentence) and all(sentence in each for each in found)


def test_the_report_says_it_of_each_host(tmp_path: Path) -> None:
    """Beside how the steps were found, on the first screen and in JSON."""
    for host, first in (("one", 5_200_000_000), ("two", 2 * MS)):
        training_run(hostname=host, input_ps=[first] + [2 * MS] * 9).write(tmp_path / f"{host}.xplane.pb")
    with outpace.open(tmp_path) as profile:
        report = profile.report()
    sentence = "a leading step of 1.46 times the median was kept; from 1.5 it would be left out (warm-up) (one)"
    assert [line for page in report.pages for line in page.evidence if "it would be" in line] == [sentence]
    assert " ".join(terminal.render(report, width=120).split()).count(sentence) == 1
    assert json_.render(report).count(sentence) == 1

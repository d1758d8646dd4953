"""The step is the outermost repetition: loops whose calls are known."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.timeline.cycles import find_recurrence_lag
from tests.unit.timeline.loops import MS, Loop, durations


def test_a_function_that_a_step_calls_eight_times_is_no_step() -> None:
    """`matmul` takes most of the time; a step is eight of them with what stands between."""
    loop = Loop()
    for _ in range(5):
        for number in range(8):
            loop.jit("matmul", 2)
            if number in (2, 5):
                loop.jit("softmax", 1)
        loop.jit("update", 1).wait(3)
    steps = loop.steps()
    assert len(steps) == 5
    assert "sequence of calls" in steps.explanation and "matmul" in steps.explanation
    assert durations(steps)[1:-1] == [pytest.approx(22, abs=0.01)] * 3, "16 + 2 + 1, and 3 of Python"
    assert (steps.start[1:] == steps.end[:-1]).all()


def test_a_function_that_is_called_once_per_step_is_the_step() -> None:
    loop = Loop()
    for _ in range(6):
        loop.jit("step", 5).wait(1)
    steps = loop.steps()
    assert durations(steps) == [5, 6, 6, 6, 6, 6]
    assert steps.explanation.startswith("6 calls of PjitFunction(step)")


def test_steps_with_another_call_in_each_are_still_one_call_each() -> None:
    loop = Loop()
    for _ in range(6):
        loop.jit("batch", 1).jit("step", 5).wait(1)
    assert durations(loop.steps())[1:] == [7] * 5


@pytest.mark.parametrize("every", [5, 10])
def test_an_evaluation_now_and_then_does_not_change_the_step(every: int) -> None:
    """It belongs to the step that follows it, and the others are as they would be without it."""
    loop = Loop()
    for number in range(30):
        loop.call("train_step", 4).wait(1)
        if number % every == every - 1:
            for _ in range(3):
                loop.call("evaluate", 2)
    steps = loop.steps()
    assert len(steps) == 30
    assert "calls of train_step" in steps.explanation
    late = [number for number, ms in enumerate(durations(steps)) if ms > 6]
    assert late == [number for number in range(1, 30) if number % every == 0]
    assert durations(steps)[every] == 11
    assert not any(steps.exclusions), "what comes again is the steady state's"


MANY = (
    "four and more calls with one other look like four steps with an evaluation; the mean is then that of a part of the batch"
)


@pytest.mark.parametrize("parts", [2, 3, pytest.param(4, marks=pytest.mark.xfail(reason=MANY, strict=False))])
def test_accumulated_gradients_make_one_step_of_their_calls(parts: int) -> None:
    """Calls of `accumulate` and one of `apply` are a step, though `accumulate` repeats most."""
    loop = Loop()
    for _ in range(6):
        for _ in range(parts):
            loop.call("accumulate", 3).wait(0.2)
        loop.call("apply", 1).wait(1)
    steps = loop.steps()
    assert len(steps) == 6
    assert durations(steps)[1:-1] == [pytest.approx(3.2 * parts + 2)] * 4


def test_a_capture_that_begins_inside_a_step_finds_the_others_whole() -> None:
    loop = Loop()
    for number in range(6):
        for _ in range(3 if number else 1):
            loop.call("accumulate", 3).wait(0.2)
        loop.call("apply", 1).wait(1)
    steps = loop.steps()
    assert len(steps) == 6
    assert durations(steps)[1:-1] == [pytest.approx(11.6)] * 4
    assert durations(steps)[0] == 3


def test_two_repetitions_are_the_fewest_that_show_a_round() -> None:
    loop = Loop()
    for _ in range(3):
        loop.jit("matmul", 2).jit("relu", 1).jit("matmul", 2).jit("sum", 1)
    assert len(loop.steps()) == 3
    once = Loop().jit("matmul", 2).jit("relu", 1).jit("matmul", 2).jit("sum", 1)
    assert len(once.steps()) == 2, "of one sequence nothing says that it repeats: two calls"


def test_calls_of_other_threads_are_no_part_of_a_round() -> None:
    loop = Loop()
    other = loop.space.plane("/host:CPU").line("other")
    for number in range(8):
        if number % 2:
            other.event("PjitFunction(prefetch)", loop.at + MS, MS // 10)
        loop.jit("step", 5).wait(1)
    assert len(loop.steps()) == 8


@pytest.mark.parametrize("length", [300, 9_000])
@pytest.mark.parametrize("period", [1, 2, 7, 60])
@pytest.mark.parametrize("noise", [0.0, 0.04, 0.2])
def test_a_sample_finds_what_counting_at_every_lag_finds(length: int, period: int, noise: float) -> None:
    chance = np.random.default_rng(period)
    codes = np.tile(chance.permutation(period), length // period + 1)[:length]
    wrong = chance.random(length) < noise
    codes[wrong] = chance.integers(100, 200, int(wrong.sum()))
    lags = range(1, length // 3)
    counted = next((lag for lag in lags if np.mean(codes[lag:] == codes[:-lag]) >= 0.9), None)
    assert find_recurrence_lag(codes, lags, 0.9, []) == counted
    assert (counted is None) == (noise == 0.2)

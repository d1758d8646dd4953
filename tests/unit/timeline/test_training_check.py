"""What repeats without being a training: set-up, calls that came by chance; and few steps that are
one all the same.
"""

from __future__ import annotations

import pytest

from outpace.model.space_builder import Unsigned
from outpace.timeline import Confidence, StepSource
from outpace.timeline.steps import Steps
from tests.unit.timeline.loops import Loop
from tests.unit.timeline.test_builds import built, passes

BEGAN = 1_700_000_000_000_000_000


def captured(loop: Loop, ms: float, since: float = 0) -> Steps:
    """The steps of a capture that went on for `ms`, and began `since` ms before the first event."""
    environment = loop.space.plane("Task Environment")
    environment.stat("profile_start_time", Unsigned(BEGAN)).stat(
        "profile_stop_time", Unsigned(BEGAN + round((since + ms) * 1e6))
    )
    loop.line.timestamp_ns = round(since * 1e6)
    return loop.steps()


def refused(steps: Steps) -> bool:
    return len(steps) == 0 and steps.source is StepSource.NONE and steps.confidence is Confidence.LOW


def test_one_call_of_a_primitive_is_no_training() -> None:
    """Parameters on the device, then seconds of reading data: "141 µs per step, 7,070 steps/s", a
    promise of 94%.
    """
    found = captured(Loop().jit("add", 0.14), 3000, since=5)
    assert refused(found)
    assert found.explanation == (
        "1 call of PjitFunction(add) took 140 µs of the 3.00 s captured, and computed no gradients: the training had not begun, or was over"
    )
    assert refused(captured(Loop().jit("add", 0.14), 0.2, since=3000)), "at the end of the capture"


def repeated(function: str, count: int, ms: float, apart: float) -> Loop:
    loop = Loop()
    for _ in range(count):
        loop.jit(function, ms).wait(apart)
    return loop


def test_first_weights_layer_by_layer_are_no_training() -> None:
    assert refused(captured(repeated("_normal", 20, 1.5, 0.5), 3000))
    assert len(captured(repeated("_normal", 20, 1.5, 0.5), 45)) == 20, "where they fill the capture they are all that it shows"


def test_a_build_that_is_open_at_the_end_is_named() -> None:
    loop = Loop()
    for number in range(20):
        loop = built(loop, "_normal", 300) if number in (0, 1, 4, 5) else loop.jit("_normal", 8)
    found = captured(passes(loop.wait(10), "train_step", 200), 2400)
    assert refused(found)
    assert found.explanation.startswith("the capture ended while train_step was being compiled (from 1.34 s on, ")
    assert found.explanation.endswith("it holds none of its steps")


def test_steps_that_fill_the_capture_outlive_an_open_build() -> None:
    assert len(captured(passes(repeated("policy", 100, 9, 1), "evaluate", 10), 1060)) == 100


@pytest.mark.parametrize("count", [1, 2])
def test_few_long_calls_that_fill_the_capture_are_steps(count: int) -> None:
    """An epoch in one lax.scan: nothing shows that it comes again, so the certainty is low."""
    loop = Loop().wait(100)
    for _ in range(count):
        loop.jit("train_epoch", 2000 / count)
    found = captured(loop, 2300)
    assert len(found) == count and found.confidence is Confidence.LOW


def test_a_long_call_between_two_that_the_capture_cut_off_is_a_step() -> None:
    """Of calls of 1.4 s a capture of 3 s may hold one whole: the others leave no event."""
    assert len(captured(Loop().jit("train_epoch", 1400), 1650, since=1350)) == 1
    assert refused(captured(Loop().jit("train_epoch", 900), 2000, since=1000))


def test_few_calls_behind_their_build_are_steps() -> None:
    found = captured(built(Loop(), "epoch", 5000).jit("epoch", 1000).wait(0.1).jit("epoch", 1000), 7010)
    assert len(found) == 3


def test_calls_that_each_compile_are_never_sure() -> None:
    loop = Loop()
    for _ in range(12):
        loop = built(loop, "solve", 50).wait(1)
    found = captured(loop, 620)
    assert len(found) == 12 and found.confidence is Confidence.LOW


def test_steps_of_a_tf_function_that_fill_the_capture_are_sure() -> None:
    loop = Loop()
    for _ in range(12):
        loop.call("train_step", 9).wait(1)
    found = captured(loop, 130)
    assert len(found) == 12 and found.confidence is Confidence.HIGH


def test_a_loop_that_ended_early_is_refused_where_nothing_says_that_it_trains() -> None:
    assert len(captured(repeated("f", 12, 9, 1), 200)) == 12
    assert refused(captured(repeated("f", 12, 9, 1), 300))
    assert len(captured(repeated("predict", 12, 9, 1), 300)) == 12, "its name says what it does"


def test_a_first_step_in_part_before_a_long_warm_up_hides_no_steps() -> None:
    """The first call begins before the capture and is not judged; the warm-up takes 20 of 28 ms."""
    loop = Loop().jit("f", 3.4)
    for ms in (3.3, 4.6, 7.3, 4.6, *[0.6] * 7):
        loop.event("convert", 0.01).jit("f", ms)
    found = captured(loop, 28)
    assert len(found) == 12 and found.complete.tolist() == [False, *[True] * 11]

"""The window's states, with a profiler that only writes down what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from outpace.capture.options import UNTRAINED_TIMEOUT_S, CaptureOptions
from outpace.capture.window import SETTLING_STEPS, STEP_EXPIRY_NS, StepCandidate, StepWindow, WindowState


class FakeProfiling:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.free = True
        self.trains_later = False

    def may_train(self) -> bool:
        return self.trains_later

    def open(self, candidate: StepCandidate | None) -> bool:
        if self.free:
            self.log.append("open")
        return self.free

    def begin_mark(self, name: str, number: int) -> object:
        self.log.append(f"{name} {number}")
        return lambda: self.log.append(f"end {number}")

    def close(self, rejection_reason: Callable[[str], str] | None) -> bool:
        self.log.append("close")
        return rejection_reason is None or not rejection_reason("profile")

    def update_record(self) -> None:
        self.completed = True

    def print_message(self, text: str) -> None:
        self.log.append(text)

    def stop_script(self) -> None:
        self.log.append("stop")


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 10
        return self.now


def make(clock: Callable[[], int] | None = None, **options: Any) -> tuple[StepWindow, FakeProfiling]:
    profiling = FakeProfiling()
    defaults: dict[str, Any] = {"warmup": 2, "steps": 3, "after": 1, "stop": False}
    return StepWindow(CaptureOptions(**{**defaults, **options}), profiling, clock or Clock()), profiling  # type: ignore[arg-type]


def run(window: StepWindow, step: StepCandidate, count: int) -> None:
    for _ in range(count):
        window.begin(step)
        window.end(step)


def test_marks_exactly_the_window() -> None:
    window, profiling = make()
    run(window, StepCandidate("keras fit"), 20)
    assert profiling.log == ["open", "train 2", "end 2", "train 3", "end 3", "train 4", "end 4", "close"]
    assert (window.first_step, len(window.during_ns)) == (2, 3)
    assert len(window.after_ns) == 20 - 2 - 3 - SETTLING_STEPS


def test_no_warm_up_opens_before_the_first_step() -> None:
    window, profiling = make(warmup=0, steps=1)
    run(window, StepCandidate("keras fit"), 1)
    assert profiling.log == ["open", "train 0", "end 0", "close"]


def test_warm_up_durations_leave_out_the_first_steps() -> None:
    window, _ = make(warmup=6)
    step = StepCandidate("keras fit")
    run(window, step, 6)
    assert len(step.recent_ns) == 4


def test_first_through_the_warm_up_is_the_step() -> None:
    window, profiling = make()
    often, seldom = StepCandidate("custom loop", name="often"), StepCandidate("custom loop", name="seldom")
    for _ in range(10):
        run(window, often, 2)
        run(window, seldom, 1)
    assert window.chosen_candidate is often
    assert seldom.count == 1
    assert profiling.log.count("close") == 1


def test_a_function_that_trains_is_remembered_for_a_while() -> None:
    window, _ = make()
    run(window, StepCandidate("custom loop"), 2)
    assert not window.has_trained_recently()
    run(window, StepCandidate("custom loop", trains=True), 1)
    assert window.has_trained_recently()
    window._clock = lambda: STEP_EXPIRY_NS + 1000
    assert not window.has_trained_recently()


def test_unsure_candidate_does_not_open() -> None:
    window, profiling = make()
    step = StepCandidate("eager loop")
    for _ in range(10):
        window.begin(step, may_open=False)
        window.end(step)
    assert profiling.log == []
    assert window.top_candidate is step


def test_own_marks_are_not_doubled() -> None:
    window, profiling = make()
    run(window, StepCandidate("own marks", mark=None), 8)
    assert profiling.log == ["open", "close"]
    assert len(window.during_ns) == 3


def test_busy_profiler_is_waited_for() -> None:
    window, profiling = make()
    profiling.free = False
    step = StepCandidate("keras fit")
    run(window, step, 7)
    profiling.free = True
    run(window, step, 7)
    assert profiling.log[:2] == ["open", "train 7"]


def test_users_profiler_gets_way_and_ours_comes_after() -> None:
    window, profiling = make()
    step = StepCandidate("keras fit")
    run(window, step, 3)
    window.begin(step)
    window.yield_to_user()
    window.end(step)
    assert window.state is WindowState.WAITING
    run(window, step, 3)
    assert profiling.log == [
        "open", "train 2", "end 2", "train 3", "end 3",
        "open", "train 4", "end 4", "train 5", "end 5", "train 6", "end 6", "close",
    ]  # fmt: skip
    assert (window.first_step, len(window.during_ns)) == (4, 3)


def test_seconds_close_at_a_steps_end() -> None:
    window, profiling = make(steps=None, seconds=1e-7)  # 100 ns; a begin and an end take 10 ns each
    run(window, StepCandidate("keras fit"), 12)
    assert profiling.log[-1] == "close"
    assert len(window.during_ns) in (5, 6)


def test_stop_comes_after_the_samples_behind_the_window() -> None:
    window, profiling = make(stop=True, after=4)
    step = StepCandidate("keras fit")
    run(window, step, 2 + 3 + SETTLING_STEPS + 3)
    assert profiling.log[-1] == "close"
    run(window, step, 1)
    assert profiling.log[-1] == "stop"
    assert len(window.after_ns) == 4


def test_stop_without_samples_behind_the_window() -> None:
    window, profiling = make(stop=True, after=0)
    run(window, StepCandidate("keras fit"), 2 + 3)
    assert profiling.log[-2:] == ["close", "stop"]


def test_a_script_that_is_at_its_end_anyway_is_stopped_once() -> None:
    window, profiling = make(stop=True)
    run(window, StepCandidate("keras fit"), 100)
    assert profiling.log.count("stop") == 1
    assert window.is_off


def test_interrupted_step_is_noted() -> None:
    window, _ = make()
    step = StepCandidate("custom loop")
    run(window, step, 3)
    window.begin(step)
    step.interrupted = True
    window.end(step)
    run(window, step, 3)
    assert window.interrupted == [3]


def test_closing_early_keeps_whole_steps_only() -> None:
    window, profiling = make()
    step = StepCandidate("keras fit")
    run(window, step, 4)
    window.begin(step)
    window.close()
    assert len(window.during_ns) == 2
    assert profiling.log[-2:] == ["end 4", "close"]


def test_time_window_needs_that_no_step_was_seen() -> None:
    window, profiling = make(steps=None, seconds=1.0)
    run(window, StepCandidate("keras fit"), 1)
    assert not window.open_by_time(StepCandidate("seconds", mark=None))
    assert profiling.log == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, None),
        ({"steps": None}, "Nothing says"),
        ({"steps": 0}, "0 steps"),
        ({"seconds": 0.0}, "0 seconds"),
        ({"seconds": float("nan")}, "nan seconds"),
        ({"warmup": -1}, "warmup"),
    ],
)
def test_impossible_options_are_named(options: dict[str, object], problem: str | None) -> None:
    found = CaptureOptions(**options).find_problem()  # type: ignore[arg-type]
    assert found is None if problem is None else problem in str(found)


def test_a_window_by_time_opens_in_spite_of_steps_only_when_it_is_told_to() -> None:
    window, profiling = make()
    run(window, StepCandidate("custom loop"), 1)
    assert not window.open_by_time(StepCandidate("seconds", mark=None))
    assert window.open_by_time(StepCandidate("seconds", mark=None), ignore_steps=True)
    assert profiling.log == ["open"] and window.is_decided


def test_steps_are_expected_while_they_are_counted_and_during_a_fit() -> None:
    window, _ = make()
    assert not window.expects_steps
    window.in_keras_fit = True
    assert window.expects_steps
    window.in_keras_fit = False
    run(window, StepCandidate("custom loop"), 1)
    assert window.expects_steps
    window._clock.now += STEP_EXPIRY_NS
    assert not window.expects_steps


def test_a_profile_that_is_refused_leaves_the_window_unopened() -> None:
    window, profiling = make()
    assert window.open_by_time(StepCandidate("seconds", mark=None))
    window.close(lambda _: "nothing came round in it")
    assert not window.is_decided and window.chosen_candidate is None and profiling.log == ["open", "close"]
    assert window.open_by_time(StepCandidate("seconds", mark=None))
    window.close()
    assert window.is_decided and profiling.log[:4] == ["open", "close", "open", "close"]


def test_who_closes_second_waits_until_the_profile_is_saved() -> None:
    window, profiling = make()
    begun, go_on = threading.Event(), threading.Event()
    close = profiling.close

    def slow(rejection_reason: Callable[[str], str] | None) -> bool:
        begun.set()
        assert go_on.wait(10)
        return close(rejection_reason)

    profiling.close = slow  # type: ignore[method-assign]
    assert window.open_by_time(StepCandidate("seconds", mark=None))
    timer = threading.Thread(target=window.close)
    timer.start()
    assert begun.wait(10)
    threading.Timer(0.1, go_on.set).start()
    window.close()
    assert profiling.log == ["open", "close"]
    timer.join()


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def captured_steps(seconds: Callable[[int], float], **options: object) -> tuple[int, FakeProfiling]:
    """How many steps of these lengths a window of at least a tenth of a second holds."""
    profiling, clock = FakeProfiling(), SetClock()
    given: dict[str, object] = {"warmup": 0, "steps": 5, "lasting": 0.1, "stop": False, **options}
    window, step = StepWindow(CaptureOptions(**given), profiling, clock), StepCandidate("keras fit")  # type: ignore[arg-type]
    for number in range(1000):
        window.begin(step)
        clock.now += round(seconds(number) * 1e9)
        window.end(step)
    return len(window.during_ns), profiling


def test_what_comes_seldom_and_takes_much_is_waited_for_a_second_time() -> None:
    count, profiling = captured_steps(lambda number: 0.5 if number % 30 == 8 else 0.01)
    assert count == 39 and sum("until another one does" in line for line in profiling.log) == 1


def test_a_hiccup_beside_it_changes_nothing() -> None:
    """Three times as long as the others, and nothing beside the one that holds most of the time."""
    count, _ = captured_steps(lambda number: 0.5 if number % 30 == 8 else 0.04 if number == 5 else 0.01, lasting=0.4)
    assert count == 39


def test_nothing_is_waited_for_in_a_window_that_holds_too_much() -> None:
    clock = SetClock()
    window, profiling = make(clock, steps=5, lasting=0.1)
    window.max_window_s, step = lambda _: 1.0, StepCandidate("own marks")
    for number in range(9):
        window.begin(step)
        clock.now += 3 * 10**9 if number == 5 else 10**8
        window.end(step)
    assert len(window.during_ns) == 4 and not any("another one does" in line for line in profiling.log)


def test_it_is_waited_for_until_a_limit() -> None:
    count, profiling = captured_steps(lambda number: 0.5 if number == 3 else 0.02)
    waited = 0.02 * (count - 4)
    assert waited == pytest.approx(10 * (0.5 + 0.06), rel=0.05) and "for 5.6 s at most" in " ".join(profiling.log)


def test_a_number_of_steps_that_was_asked_for_is_kept() -> None:
    count, profiling = captured_steps(lambda number: 0.5 if number % 30 == 3 else 0.01, lasting=0.0)
    assert count == 5 and profiling.log[-1] == "close"


def test_what_takes_little_is_not_waited_for() -> None:
    count, profiling = captured_steps(lambda number: 0.04 if number == 40 else 0.01, lasting=0.5)
    assert not any("another" in line for line in profiling.log) and count < 60


def evaluation(trains_later: bool, steps: int, pause_s: float = 0.0) -> tuple[StepWindow, FakeProfiling]:
    """A window behind so many steps of an evaluation, with a pause before the last five."""
    clock = Clock()
    window, profiling = make(clock)
    profiling.trains_later = trains_later
    evaluates = StepCandidate("keras evaluate", predicts=True)
    run(window, evaluates, steps - 5)
    clock.now += round(pause_s * 1e9)
    run(window, evaluates, 5)
    return window, profiling


def test_predictions_are_what_is_captured_of_a_program_that_does_not_train() -> None:
    window, profiling = evaluation(False, 30)
    assert window.state is WindowState.AFTER and profiling.log.count("open") == 1


def test_predictions_are_kept_for_want_of_a_training_that_may_follow() -> None:
    window, profiling = evaluation(True, 30)
    assert not window.is_decided and profiling.log.count("open") == 1
    window.on_training_begin()
    run(window, fit := StepCandidate("keras fit"), 5)
    assert window.state is WindowState.AFTER and window.chosen_candidate is fit and profiling.log.count("open") == 2


def test_a_window_over_predictions_ends_where_the_training_begins() -> None:
    window, profiling = make()
    run(window, StepCandidate("keras predict", predicts=True), 4)
    assert window.is_decided
    window.on_training_begin()
    run(window, fit := StepCandidate("keras fit"), 5)
    assert window.state is WindowState.AFTER and window.chosen_candidate is fit and profiling.log.count("close") == 2


def test_predictions_that_go_on_are_what_the_program_is_about() -> None:
    window, profiling = evaluation(True, 30, UNTRAINED_TIMEOUT_S)
    assert window.state is WindowState.AFTER and profiling.log.count("open") == 2


@pytest.mark.parametrize(("lasting", "expected"), [(2.0, 3), (0.0, 5)])
def test_a_window_ends_before_it_holds_too_many_events(lasting: float, expected: int) -> None:
    """Three steps at least, and only where nobody asked for a number of steps."""
    window, profiling = make(steps=5, lasting=lasting)
    window.max_window_s = lambda _: 1e-9
    run(window, StepCandidate("own marks"), 20)
    assert len(window.during_ns) == expected
    assert ("the capture ends after 3 steps: they make very many events" in profiling.log) is (lasting > 0)

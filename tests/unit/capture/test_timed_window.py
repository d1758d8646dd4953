"""When a window without steps opens by itself, and which profile it keeps."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from outpace.capture import timed_window
from outpace.capture.compilations import CompilationRecorder
from outpace.capture.host_snapshots import (
    DURATION_GROWTH,
    FIRST_DURATION_S,
    MAX_DURATION_S,
    MAX_LONG_SNAPSHOTS,
    REQUEST_FILE,
    RESPONSE_TIMEOUT_S,
    AnalysisClient,
    TrainingDetector,
    compute_overhead,
    mentions_training,
)
from outpace.capture.options import UNTRAINED_TIMEOUT_S, CaptureOptions, ProgramRuns, Repetition
from outpace.capture.profilers import JaxProfiler
from outpace.capture.repetition import answer_request, find_repetition
from outpace.capture.timed_window import DEFAULT_LENGTH_S, EAGER_DELAY_S, MAX_EVENTS, MIN_TAPES, TimedWindow
from outpace.capture.window import StepCandidate
from outpace.store.record import StepDurations
from tests.support import profile_path
from tests.unit.timeline.loops import Loop
from tests.unit.timeline.test_gradients import BACKWARD, evaluated_often, programs

TRAINS = Repetition(rounds=20, seconds=0.005, what="train_step", trains=True, busy=True)
SET_UP = Repetition(rounds=20, seconds=0.005, what="make_batch", busy=True)
NOTHING = Repetition()
WORKS = Repetition(busy=True, why="nothing in the profile repeats like a training step")


def signs(may: bool = True) -> TrainingDetector:
    return TrainingDetector(lambda: may)


def test_what_comes_round_and_computes_gradients_is_the_training() -> None:
    assert signs().add(TRAINS, 0.0)


def test_what_comes_round_without_gradients_waits_where_a_training_may_follow() -> None:
    found = signs()
    assert not found.add(SET_UP, 100.0) and not found.add(SET_UP, 100.0 + UNTRAINED_TIMEOUT_S / 2)
    assert found.add(SET_UP, 100.0 + UNTRAINED_TIMEOUT_S)


def test_the_wait_begins_anew_once_the_program_does_something_else() -> None:
    found = signs()
    found.add(SET_UP, 100.0)
    found.add(NOTHING, 110.0)
    assert not found.add(SET_UP, 100.0 + UNTRAINED_TIMEOUT_S)


def test_a_program_that_cannot_train_is_captured_at_once() -> None:
    assert signs(may=False).add(SET_UP, 0.0) and signs().add(Repetition(rounds=3, predicts=True, busy=True), 0.0)


def test_rounds_of_one_training_are_counted_over_looks() -> None:
    """A step of a second comes round once in a look."""
    found, one = signs(), Repetition(rounds=1, what="train_step", trains=True, busy=True)
    assert [found.add(one, float(at)) for at in range(3)] == [False, False, True]
    apart = signs()
    assert not any(apart.add(replace(one, what=what), 0.0) for what in ("init", "warm_up", "load"))


def test_looks_grow_while_jax_works_and_nothing_comes_round() -> None:
    """Steps that are longer than the longest look are captured all the same, once that
    is certain.
    """
    found, looks = signs(), []
    while not found.add(WORKS, 0.0):
        looks.append(found.next_duration_s)
        assert len(looks) < 20
    assert (
        looks[0] == DURATION_GROWTH * FIRST_DURATION_S
        and looks[-1] == MAX_DURATION_S
        and looks.count(MAX_DURATION_S) == MAX_LONG_SNAPSHOTS
    )


def test_what_was_seen_names_the_look_that_saw_it() -> None:
    """The next look would be longer: nothing is known of that."""
    found = signs()
    found.add(WORKS, 0.0)
    assert found.describe() == f"JAX was at work, and nothing came round 3 times within {FIRST_DURATION_S:g} s."


def test_reading_data_is_no_sign() -> None:
    found = signs()
    assert not any(found.add(NOTHING, float(at)) for at in range(100)) and found.next_duration_s == FIRST_DURATION_S


@pytest.mark.parametrize(
    ("text", "may"), [("loss, g = jax.value_and_grad(f)(w)", True), ("trainer.fit(data)", True), ("y = forward(w, x)", False)]
)
def test_whether_it_may_train_later_is_in_its_text(
    text: str, may: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.py").write_text(text)
    monkeypatch.setattr(sys, "modules", {"__main__": SimpleNamespace(__file__=str(tmp_path / "job.py"))})
    assert mentions_training() == may


def test_a_question_is_answered_by_the_rule_of_every_profile(tmp_path: Path) -> None:
    """Who asks waits; who answers reads the profile. What trains, and what has no step, is told
    apart.
    """
    profile = next(Path(profile_path("jax_loop")).glob("*.xplane.pb.gz"))
    found: list[Repetition | None] = []
    asking = Thread(target=lambda: found.append(AnalysisClient(str(tmp_path)).analyze(str(profile))))
    asking.start()
    until = time.monotonic() + 20
    while asking.is_alive() and time.monotonic() < until:
        answer_request(str(tmp_path))
        asking.join(0.01)
    assert found == [find_repetition(str(profile))] and found[0] is not None and found[0].rounds >= 3
    assert not (tmp_path / REQUEST_FILE).exists()


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("outpace.capture.host_snapshots.RESPONSE_TIMEOUT_S", 0.05)
    assert AnalysisClient("").analyze("x") is None and AnalysisClient(str(tmp_path)).analyze("x") is None


def test_a_script_that_has_ended_waits_for_no_answer(tmp_path: Path) -> None:
    over = Event()
    over.set()
    began = time.monotonic()
    assert AnalysisClient(str(tmp_path), over).analyze("x") is None and time.monotonic() - began < RESPONSE_TIMEOUT_S / 2


def test_a_profile_that_cannot_be_read_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.xplane.pb").write_bytes(b"\xff" * 100)
    assert find_repetition(str(tmp_path / "x.xplane.pb")).rounds == 0


class Program:
    """A program, its window, and what looks see of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, framework: str = "jax") -> None:
        monkeypatch.setattr(timed_window, "framework_in_use", lambda: framework)
        self.bridge = SimpleNamespace(_backends={})
        monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", self.bridge)
        self.window = SimpleNamespace(expects_steps=False, is_decided=False)
        session: Any = SimpleNamespace(window=self.window, profilers={})
        self.timed = TimedWindow(session, CompilationRecorder(lambda: False))
        self.looks: list[float | None] = []
        monkeypatch.setattr(self.timed, "_take_snapshot", lambda: self.looks.append(None))


def test_jax_that_has_touched_no_device_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(monkeypatch)
    assert program.timed._next_length() is None and not program.looks
    program.bridge._backends["cpu"] = object()
    program.window.expects_steps = True  # steps are counted, or Keras has begun to fit
    assert program.timed._next_length() is None and not program.looks
    program.window.expects_steps = False
    program.timed._next_length()
    assert program.looks


def test_eager_tensorflow_is_known_by_its_gradient_tapes(monkeypatch: pytest.MonkeyPatch) -> None:
    program, now = Program(monkeypatch, "tensorflow"), [50.0]
    monkeypatch.setattr(timed_window, "time", SimpleNamespace(monotonic=lambda: now[0]))
    program.timed.tape_count = MIN_TAPES - 1
    assert program.timed._next_length() is None
    program.timed.tape_count = MIN_TAPES
    assert program.timed._next_length() is None
    now[0] += EAGER_DELAY_S
    assert program.timed._next_length() == DEFAULT_LENGTH_S


def test_a_window_of_steps_lasts_as_long_as_the_looks_before_it_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step may be quiet while one look is taken, and make many events in the next."""
    program = Program(monkeypatch)
    timed_window, dense = program.timed, [Repetition(density=d, busy=True) for d in (10.0, 1e6, 100.0)]
    timed_window._session.options = CaptureOptions.for_command(None)
    timed_window._session.profilers["jax"] = object.__new__(JaxProfiler)
    timed_window._stop_event.set()  # nothing is waited for
    monkeypatch.setattr(timed_window._snapshots, "take", lambda *_: dense.pop(0))
    program.bridge._backends["cpu"], program.window.expects_steps = object(), True
    assert timed_window._next_length() is None and len(dense) == 3, "no step is about to be captured"
    steps = StepCandidate("own marks", framework="jax")
    assert timed_window.max_window_s(steps) == math.inf
    while dense:
        timed_window._next_length()
    assert timed_window.max_window_s(steps) == MAX_EVENTS / 1e6
    timed_window.max_window_s(StepCandidate("keras fit", framework="tensorflow"))
    assert not timed_window._counts_events, "JAX alone can be looked at"


class TimeWindow:
    """A window by time that opens when it is asked so often, before which another profiler runs."""

    def __init__(self, profilers: dict[str, object], asked: int = 1) -> None:
        self._profilers, self._asked = profilers, asked
        self.opened: list[list[str]] = []
        self.is_decided = False

    def open_by_time(self, step: object, ignore_steps: bool) -> bool:
        self._asked -= 1
        if not self._asked:
            self.opened.append(sorted(self._profilers))
        return not self._asked

    def close(self, rejection_reason: object, defer_stop: bool) -> None:
        self.is_decided = True


def test_a_window_by_time_waits_for_a_framework_that_is_still_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow imports JAX first, and what comes after it may take longer than the delay."""
    monkeypatch.setattr(timed_window, "framework_in_use", lambda: "tensorflow")
    profilers: dict[str, object] = {"jax": object()}
    asked_window = TimeWindow(profilers)
    session: Any = SimpleNamespace(options=SimpleNamespace(seconds=0.01, delay=0.0), profilers=profilers, window=asked_window)
    window = TimedWindow(session, CompilationRecorder(lambda: False))
    window.start()
    time.sleep(0.3)
    assert not asked_window.opened
    profilers["tensorflow"] = object()
    assert window._thread is not None
    window._thread.join(20)
    assert asked_window.opened == [["jax", "tensorflow"]]


def test_a_window_by_time_waits_for_another_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_window, "framework_in_use", lambda: "tensorflow")
    monkeypatch.setattr(timed_window, "SNAPSHOT_INTERVAL_S", 0.01)
    window = TimeWindow({"tensorflow": object()}, asked=3)
    session: Any = SimpleNamespace(options=SimpleNamespace(seconds=0.01, delay=0.0), profilers=window._profilers, window=window)
    waits = TimedWindow(session, CompilationRecorder(lambda: False))
    waits.start()
    assert waits._thread is not None
    waits._thread.join(20)
    assert window.opened == [["tensorflow"]] and window.is_decided


def test_rounds_without_a_profiler_are_counted_by_the_numbers_of_runs() -> None:
    """Two runs a round: 5 ms each with the profiler, 3 ms without."""
    during = ProgramRuns(first=100, first_ns=0, last=120, last_ns=50_000_000, rounds=10, per_round=2.0)
    first, second = ProgramRuns(200, 60_000_000, 204, 70_000_000), ProgramRuns(404, 10_000_000, 410, 40_000_000)
    other = ProgramRuns(7 << 30, 0, (7 << 30) + 4, 1)
    window = Repetition(rounds=10, seconds=0.005, runs=(other, during))
    found = compute_overhead(window, (other, first), (second,), 360_000_000)
    assert found == StepDurations((), (5_000_000,), (3_000_000,), (0, 10, 100))
    assert compute_overhead(window, (other,), (second,), 9) == compute_overhead(window, (first,), (), 9) == StepDurations()
    for wrong in (0.0, -1.0, 20.0):  # it came round nowhere, or its numbers are those of two programs
        assert (
            compute_overhead(replace(window, runs=(replace(during, per_round=wrong),)), (first,), (second,), 9)
            == StepDurations()
        )
    assert compute_overhead(window, (first,), (replace(second, first=208),), 9) == StepDurations(), "two rounds"
    repetition = Repetition(rounds=3, runs=(during, first))
    assert Repetition.from_json(repetition.to_json()) == repetition


def test_a_profile_says_which_runs_of_a_program_it_holds() -> None:
    found = find_repetition(str(profile_path("jax_h100_dwconv1d") / "vm.xplane.pb.gz"))
    assert found.rounds == 50 and len(found.runs) == 1 and found.events > 10_000
    assert found.runs[0].per_round == 1.0 and found.runs[0].cycle_ns / 1e9 == pytest.approx(found.seconds, rel=0.01)


def test_a_training_that_another_one_follows_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe of the last layer, and then the fine-tuning for hours."""
    loop = Loop()
    programs(loop, probe_step=BACKWARD, finetune_step=BACKWARD)
    for _ in range(30):
        loop.jit("probe_step", 2)
    for _ in range(6):
        loop.jit("finetune_step", 4)
    found = find_repetition(str(written(tmp_path, loop)))
    assert found.trains and found.next == "finetune_step"
    assert asked(monkeypatch, replace(found, once=0.0))[1] == "what came round in it is over, and finetune_step trains now"
    assert find_repetition(str(written(tmp_path, evaluated_often(Loop())))).next == "", "an evaluation trains nothing"


def test_a_window_of_many_events_is_short() -> None:
    assert Repetition(events=50_000).with_activity(0.05, is_busy=False, has_gradients=False).seconds_for(500_000) == 0.5
    assert Repetition().seconds_for(1) == math.inf
    dense, found = signs(), Repetition(busy=True, density=1e6)
    assert [dense.add(found, 0.0) for _ in range(5)] == [False, False, False, False, True]
    assert dense.next_duration_s == 1.0, "the longest look"


def written(folder: Path, loop: Loop) -> Path:
    path = folder / "vm.xplane.pb"
    path.write_bytes(loop.space.to_bytes())
    return path


def asked(monkeypatch: pytest.MonkeyPatch, found: Repetition) -> tuple[Program, str]:
    """Why a window is thrown away in which that came round."""
    program = Program(monkeypatch)
    monkeypatch.setattr(program.timed, "_client", SimpleNamespace(analyze=lambda _: found))
    program.timed._min_length_s = 3.0
    return program, program.timed._find_problem("profile")


def test_a_window_without_three_whole_rounds_is_thrown_away_for_a_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    program, why = asked(monkeypatch, Repetition(rounds=1, seconds=4.0, busy=True, why="1 call of train_step"))
    assert why == "it holds no three whole steps: 1 call of train_step" and program.timed._min_length_s == 16.0
    assert asked(monkeypatch, TRAINS)[1] == ""


def test_what_takes_much_and_came_once_is_looked_for_in_one_longer_window(monkeypatch: pytest.MonkeyPatch) -> None:
    seldom = replace(TRAINS, once=0.4)
    program, why = asked(monkeypatch, seldom)
    assert "40% of its time" in why and program.timed._min_length_s == 12.0
    assert program.timed._find_problem("profile") == ""  # once is enough
    assert asked(monkeypatch, replace(TRAINS, once=0.1))[1] == ""

"""When a window without steps opens by itself."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from outpace.capture import timed
from outpace.capture.compiles import CompileWatch
from outpace.capture.timed import FIRST_LOOK_S, LATEST_S, LONGEST_COMPILATION_S, TAPES, TimedWindow


class Training:
    """A script with JAX, and a clock that the test turns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, framework: str = "jax") -> None:
        monkeypatch.setattr(timed, "framework_in_use", lambda: framework)
        self.bridge = SimpleNamespace(_backends={})
        monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", self.bridge)
        self.window = SimpleNamespace(expecting=False, taken=False)
        session: Any = SimpleNamespace(window=self.window)
        self.watch = CompileWatch(lambda: False)
        self.timed = TimedWindow(session, self.watch)

    def opens(self, *, until: float, since: float = 0.0) -> float | None:
        """The first moment at which it would open."""
        for tenth in range(round(since * 10), round(until * 10)):
            if self.timed.due(tenth / 10):
                return tenth / 10
        return None


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Training:
    return Training(monkeypatch)


def test_jax_that_has_touched_no_device_trains_nothing(training: Training) -> None:
    assert training.opens(until=100.0) is None


def test_a_loop_without_compilations_opens_at_the_first_look(training: Training) -> None:
    training.bridge._backends["cpu"] = object()
    assert training.opens(until=5.0) == pytest.approx(FIRST_LOOK_S)


def test_it_waits_for_the_end_of_compilations(training: Training) -> None:
    training.bridge._backends["cpu"] = object()
    training.watch.last_s = 3.0
    opened = training.opens(until=20.0)
    assert opened == pytest.approx(4.0)


def test_a_script_that_always_compiles_is_captured_all_the_same(training: Training) -> None:
    training.bridge._backends["cpu"] = object()
    opened = None
    for tenth in range(200):
        training.watch.last_s = tenth / 10
        if training.timed.due(tenth / 10):
            opened = tenth / 10
            break
    assert opened == pytest.approx(LATEST_S)


def test_one_long_compilation_is_waited_for(training: Training) -> None:
    training.bridge._backends["cpu"] = object()
    training.watch.last_s, training.watch.pending = 1.0, True
    assert training.opens(until=50.0) is None
    training.watch.last_s, training.watch.pending = 50.0, False
    opened = training.opens(since=50.0, until=60.0)
    assert opened is not None and opened <= 51.0


def test_a_compilation_that_is_never_heard_of_again_is_given_up(training: Training) -> None:
    training.bridge._backends["cpu"] = object()
    training.watch.last_s, training.watch.pending = 1.0, True
    opened = training.opens(until=100.0)
    assert opened is not None and opened == pytest.approx(1.0 + LONGEST_COMPILATION_S, abs=0.2)


def test_steps_that_are_expected_keep_it_closed(training: Training) -> None:
    training.bridge._backends["cpu"] = object()
    training.window.expecting = True
    assert training.opens(until=50.0) is None


def test_eager_tensorflow_is_known_by_its_gradient_tapes(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(monkeypatch, "tensorflow")
    training.timed.tapes = TAPES - 1
    assert training.opens(until=50.0) is None
    training.timed.tapes = TAPES
    assert training.opens(since=50.0, until=60.0) == pytest.approx(50.0 + FIRST_LOOK_S)


def test_a_window_by_time_waits_for_a_framework_that_is_still_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow imports JAX first, and what comes after it may take longer than the delay."""
    monkeypatch.setattr(timed, "framework_in_use", lambda: "tensorflow")
    opened: list[list[str]] = []
    session: Any = SimpleNamespace(
        options=SimpleNamespace(seconds=0.0, delay=0.0),
        profilers={"jax": object()},
        window=SimpleNamespace(open_for_time=lambda step, **_: opened.append(sorted(session.profilers))),
    )
    window = TimedWindow(session, CompileWatch(lambda: False))
    window.start()
    time.sleep(0.3)
    assert not opened
    session.profilers["tensorflow"] = object()
    assert window._thread is not None
    window._thread.join(20)
    assert opened == [["jax", "tensorflow"]]

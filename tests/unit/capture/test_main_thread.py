"""A thread of ours has a function run on the main thread, between two of its calls."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from outpace.capture import main_thread
from outpace.capture.main_thread import between_calls, on_main_thread, serve_while

LIMIT = 20.0  # seconds for what takes milliseconds


def asked(function: Callable[[], Any], **options: Any) -> Future[Any]:
    """Ask from a thread of its own."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(on_main_thread(function, **options))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def compute(until: Callable[[], bool]) -> int:
    """What a program does meanwhile: Python of its own, and short calls into C."""
    total, end = 0, time.monotonic() + LIMIT
    while not until() and time.monotonic() < end:
        total += sum(range(1000))
    return total


def test_it_runs_on_the_main_thread_while_that_computes() -> None:
    future = asked(threading.current_thread)
    compute(future.done)
    assert future.result(0) is threading.main_thread()


def test_what_it_raises_is_the_asking_threads() -> None:
    def fails() -> None:
        raise ValueError("no")

    future = asked(fails)
    compute(future.done)
    with pytest.raises(ValueError, match="no"):
        future.result(0)


def test_on_the_main_thread_it_runs_at_once() -> None:
    assert on_main_thread(threading.current_thread) is threading.main_thread()
    assert between_calls(threading.Thread(), threading.current_thread) is threading.main_thread()


def test_it_waits_until_it_disturbs_nothing() -> None:
    inside = True
    future = asked(lambda: inside, ready=lambda: not inside)
    compute(lambda: future.done() or time.monotonic() > begun + 0.3) if (begun := time.monotonic()) else None
    assert not future.done()
    inside = False
    compute(future.done)
    assert future.result(0) is False


def test_it_comes_between_two_calls_and_never_into_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that takes its time holds its own import lock, and a start of the profiler may import."""
    (tmp_path / "slow_module.py").write_text(
        "import time\nbegun = time.monotonic()\nwhile time.monotonic() < begun + 0.5:\n    sum(range(1000))\nended = time.monotonic()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    future = asked(time.monotonic)
    import slow_module  # type: ignore[import-not-found]  # of this test

    compute(future.done)
    assert not slow_module.begun < future.result(0) < slow_module.ended


def test_a_main_thread_that_only_waits_for_others_is_asked_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program trains in another thread, and the main one joins it."""
    monkeypatch.setattr(main_thread, "PARKED_S", 0.3)
    future = asked(threading.current_thread)
    over = threading.Event()
    future.add_done_callback(lambda _: over.set())
    over.wait(LIMIT)
    assert future.result(0) is not threading.main_thread()


def test_who_waits_for_a_thread_of_ours_serves_it() -> None:
    future = asked(threading.current_thread)

    def busy(seconds: float) -> bool:
        time.sleep(seconds)
        return not future.done()

    serve_while(busy, LIMIT)
    assert future.result(0) is threading.main_thread()


def test_an_interrupt_meanwhile_is_the_programs() -> None:
    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        compute(lambda: False)

    future = asked(interrupted)
    with pytest.raises(KeyboardInterrupt):
        compute(lambda: False)
    assert isinstance(future.exception(LIMIT), KeyboardInterrupt)


def test_many_threads_are_all_served() -> None:
    futures = [asked(lambda number=number: number) for number in range(50)]
    compute(lambda: all(future.done() for future in futures))
    assert [future.result(0) for future in futures] == list(range(50))


def test_the_programs_own_state_is_as_it_was() -> None:
    """No recursion, no trace function, and the program's locals are its own."""
    before = sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()
    future = asked(lambda: None)
    total = compute(future.done)
    assert total > 0 and (sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()) == before


def test_who_cannot_be_asked_is_warned_once_where_that_may_crash(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main_thread, "launches_graphs", lambda: True)
    monkeypatch.setattr(main_thread, "_warned", threading.Event())
    for _ in range(2):
        assert between_calls(threading.Thread(), lambda: 7) == 7
    assert capfd.readouterr().err.count("--command-buffers off") == 1

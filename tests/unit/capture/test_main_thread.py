"""A profiler begins and ends between two calls of the main thread, where that trains with CUDA
graphs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import FrameType
from typing import Any

import pytest

from outpace.capture import main_thread
from outpace.capture.main_thread import run_between_calls, wait_and_serve
from outpace.model.errors import CaptureError

LIMIT = 20.0  # seconds for what takes milliseconds


@pytest.fixture(autouse=True)
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU."""
    monkeypatch.setattr(main_thread, "uses_cuda_graphs", lambda: True)
    monkeypatch.setattr(main_thread, "_warned", threading.Event())


def asked(function: Callable[[], Any], **options: Any) -> Future[Any]:
    """Ask from a thread of its own."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(run_between_calls(function, **options))
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


def test_where_nothing_can_crash_it_runs_at_once_on_the_thread_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_thread, "uses_cuda_graphs", lambda: False)
    future = asked(threading.current_thread)
    assert future.result(LIMIT) is not threading.main_thread()  # which waits here all the time


def test_what_it_raises_is_the_asking_threads() -> None:
    def fails() -> None:
        raise ValueError("no")

    future = asked(fails)
    compute(future.done)
    with pytest.raises(ValueError, match="no"):
        future.result(0)


def test_the_thread_that_trains_is_not_asked() -> None:
    assert run_between_calls(threading.current_thread) is threading.main_thread()
    found: list[threading.Thread] = []
    other = threading.Thread(
        target=lambda: found.append(run_between_calls(threading.current_thread, threading.current_thread()))
    )
    other.start()
    other.join(LIMIT)
    assert found == [other]


def test_it_waits_until_the_program_lets_go_of_what_it_needs() -> None:
    held = True
    future = asked(lambda: held, is_ready=lambda: not held)
    begun = time.monotonic()
    compute(lambda: future.done() or time.monotonic() > begun + 0.3)
    assert not future.done()
    held = False
    compute(future.done)
    assert future.result(0) is False


def test_a_ready_that_fails_loses_nothing() -> None:
    calls: list[int] = []

    def ready() -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("once")
        return True

    future = asked(lambda: 7, is_ready=ready)
    compute(future.done)
    assert future.result(0) == 7


def test_a_main_thread_that_only_waits_for_others_is_asked_no_longer(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The program trains in another thread, and the main one joins it."""
    monkeypatch.setattr(main_thread, "PARKED_S", 0.3)
    future = asked(threading.current_thread)
    over = threading.Event()
    future.add_done_callback(lambda _: over.set())
    over.wait(LIMIT)
    assert future.result(0) is not threading.main_thread()
    assert capfd.readouterr().err.count("--command-buffers off") == 1


def test_a_call_that_does_not_come_back_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_thread, "TIMEOUT_S", 0.3)
    future = asked(threading.current_thread)
    end = time.monotonic() + LIMIT
    while not future.done() and time.monotonic() < end:
        time.sleep(2)  # in C, and no wait that is known
    assert future.result(0) is not threading.main_thread()


def test_who_waits_for_a_thread_of_ours_serves_it() -> None:
    future = asked(threading.current_thread)

    def busy(seconds: float) -> bool:
        time.sleep(seconds)
        return not future.done()

    wait_and_serve(busy, LIMIT)
    assert future.result(0) is threading.main_thread()


def test_an_exit_that_a_handler_asks_for_meanwhile_is_the_programs() -> None:
    """With its code: a preemption handler ends the program by it."""

    def leaves(number: int, frame: FrameType | None) -> None:
        sys.exit(7)

    def interrupted() -> None:
        signal.raise_signal(signal.SIGUSR1)
        compute(lambda: False)

    before = signal.signal(signal.SIGUSR1, leaves)
    try:
        future = asked(interrupted)
        with pytest.raises(SystemExit) as exit_:
            compute(lambda: False)
        assert exit_.value.code == 7
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert isinstance(future.exception(LIMIT), CaptureError)


def test_an_interrupt_meanwhile_is_the_programs() -> None:
    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        compute(lambda: False)

    future = asked(interrupted)
    with pytest.raises(KeyboardInterrupt):
        compute(lambda: False)
    assert isinstance(future.exception(LIMIT), CaptureError)


def test_many_threads_are_all_served() -> None:
    futures = [asked(partial(int, number)) for number in range(50)]
    compute(lambda: all(future.done() for future in futures))
    assert [future.result(0) for future in futures] == list(range(50))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forks_child_runs_nothing_of_it(tmp_path: Any) -> None:
    held = True
    future = asked(lambda: (tmp_path / str(os.getpid())).touch(), is_ready=lambda: not held)
    begun = time.monotonic()
    compute(lambda: time.monotonic() > begun + 0.1)
    child = os.fork()
    if not child:
        held = False
        compute(lambda: time.monotonic() > begun + 0.6)
        os._exit(0)
    os.waitpid(child, 0)
    held = False
    compute(future.done)
    assert [path.name for path in tmp_path.iterdir()] == [str(os.getpid())]


def test_the_main_thread_serves_who_holds_the_lock_that_it_waits_for() -> None:
    """A program starts its own profiler while a thread of ours ends one, for which that needs the
    main thread.
    """
    lock, held = threading.Lock(), threading.Event()
    found: list[threading.Thread] = []

    def holder() -> None:
        with lock:
            held.set()
            found.append(run_between_calls(threading.current_thread))

    threading.Thread(target=holder, daemon=True).start()
    assert held.wait(LIMIT)
    begun = time.monotonic()
    with main_thread.hold_lock(lock):
        assert found == [threading.main_thread()] and time.monotonic() - begun < LIMIT / 2

"""What is noted of Python's other threads: where they are, and what their processor clocks say."""

from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from outpace.capture import threads
from outpace.capture.stacks import StackTable
from outpace.capture.threads import ThreadSampler


def test_a_thread_under_the_identity_of_one_that_has_ended_adds_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that starts its workers anew in each epoch: 30 ms, and 50 ms of another thread, by
    clocks that begin at nothing.
    """
    worker = threading.Thread(target=time.sleep, args=(5,), name="loader", daemon=True)
    worker.start()
    frames = {worker.ident: sys._getframe()}
    clocks = iter([10, 40, 5, 50])
    stand_in: Any = SimpleNamespace(
        monotonic_ns=iter([0, 100, 200, 300]).__next__,
        clock_gettime_ns=lambda _: next(clocks),
        pthread_getcpuclockid=lambda _: 0,
    )
    monkeypatch.setattr(threads, "time", stand_in)
    monkeypatch.setattr(threads, "sys", SimpleNamespace(_current_frames=lambda: frames))
    others = ThreadSampler(None, StackTable())
    for _ in range(4):
        others._add_samples({})
    (found,) = others.build_threads({}, {})
    assert (found.name, found.cpu_ns, found.watched_ns) == ("loader", 30 + 5 + 45, 300)
    assert sum(count for _, count in found.stacks) == 4


def test_what_a_thread_computed_just_before_it_was_met_is_counted_for_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads are met as often, and one of them waits."""
    loader, waits = (threading.Thread(target=time.sleep, args=(5,), name=name, daemon=True) for name in ("loader", "waits"))
    loader.start()
    waits.start()
    clocks = {loader.ident: iter([10, 900, 950, 1900]), waits.ident: iter([5, 5, 5, 6])}
    frame = sys._getframe()
    stand_in: Any = SimpleNamespace(
        monotonic_ns=iter([0, 1000]).__next__,
        clock_gettime_ns=lambda clock: next(clocks[clock]),
        pthread_getcpuclockid=lambda identity: identity,
    )
    monkeypatch.setattr(threads, "time", stand_in)
    monkeypatch.setattr(threads, "sys", SimpleNamespace(_current_frames=lambda: dict.fromkeys(clocks, frame)))
    others = ThreadSampler(None, StackTable())
    for _ in range(2):
        others._add_samples(others._processor_times([identity for identity in clocks if identity]))
    first, second = others.build_threads({}, {})
    assert (first.name, first.stacks[0][1], first.used_ns) == ("loader", 2, (890 + 950,))
    assert (second.name, second.stacks[0][1], second.used_ns) == ("waits", 2, (1,))


def test_a_thread_that_comes_between_two_looks_at_the_frames_makes_no_empty_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    living = iter([{1: sys._getframe()}, {1: sys._getframe(), 2: sys._getframe()}])
    monkeypatch.setattr(threads, "sys", SimpleNamespace(_current_frames=lambda: next(living)))
    monkeypatch.setattr(ThreadSampler, "_processor_time", lambda *_: 7)
    others = ThreadSampler(None, StackTable())
    others._add_samples({})
    assert [thread.stacks for thread in others.build_threads({}, {})] == [((0, 1),)]


def test_the_clock_of_a_thread_that_has_ended_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pthread_getcpuclockid` of a thread that is not there any more may end the process."""
    asked: list[int] = []

    def clock_of(identity: int) -> int:
        asked.append(identity)
        return 9

    monkeypatch.setattr(time, "pthread_getcpuclockid", clock_of)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: 5)
    others = ThreadSampler(None, StackTable())
    assert [others._processor_time(1), others._processor_time(1)] == [5, 5] and asked == [1]

"""A state is read when the script's other threads have done what they were given."""

from __future__ import annotations

import queue
import threading

import pytest

from outpace.tune.same.rest import TASKS, Rest

pytestmark = pytest.mark.skipif(not TASKS.exists(), reason="the system does not tell what a thread does")


def test_a_thread_is_waited_for_until_it_has_nothing_to_do() -> None:
    given: queue.Queue[int | None] = queue.Queue()
    measured = []

    def measure() -> None:
        while (each := given.get()) is not None:
            measured.append(sum(range(each)))

    thread = threading.Thread(target=measure)
    thread.start()
    for _ in range(20):
        given.put(200_000)
    Rest().wait()
    found = len(measured)
    given.put(None)
    thread.join()
    assert found == 20


def test_one_that_never_rests_is_not_waited_for_again() -> None:
    ended = threading.Event()

    def spin() -> None:
        while not ended.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    rest = Rest()
    rest.wait()
    ended.set()
    thread.join()
    assert rest.given_up

"""What is noted of Python's other threads: where they are, and what their processor clocks say."""

from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from outpace.capture import threads
from outpace.capture.stacks import Stacks
from outpace.capture.threads import OtherThreads


def test_a_thread_under_the_identity_of_one_that_has_ended_adds_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that starts its workers anew in each epoch: 30 ms, and 50 ms of another thread, by clocks that begin at nothing."""
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
    others = OtherThreads(None, Stacks())
    for _ in range(4):
        others._look()
    (found,) = others.found({}, {})
    assert (found.name, found.cpu_ns, found.watched_ns) == ("loader", 30 + 5 + 45, 300)
    assert sum(count for _, count in found.stacks) == 4

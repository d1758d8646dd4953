"""Letting go of iterators: TensorFlow waits for their threads, often for tens of seconds, and does nothing meanwhile."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

_ending: list[threading.Thread] = []
_watched: weakref.WeakSet[Any] = weakref.WeakSet()


def dispose(things: list[Any]) -> None:
    """Empty a list that holds the last references to iterators, in a thread of its own, so that nobody waits.

    The thread is a daemon: a program that ends meanwhile does not wait either.
    """
    thread = threading.Thread(target=things.clear, name="outpace-disposal", daemon=True)
    _ending[:] = [*(other for other in _ending if other.is_alive()), thread]
    thread.start()


def watched(iterator: Any) -> Any:
    """The iterator itself, which `settled` waits for from now on."""
    _watched.add(iterator)
    return iterator


def settled(seconds: float) -> bool:
    """Wait until no watched iterator is left, so that nothing reads ahead any more; whether that was so within `seconds`."""
    end = time.monotonic() + seconds
    gc.collect()
    for thread in _ending:
        thread.join(max(0.0, end - time.monotonic()))
    gc.collect()
    return not len(_watched) and not any(thread.is_alive() for thread in _ending)

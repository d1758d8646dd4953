"""Times in which the training thread was held up by what no line of the program asked for there.
Standard library only.

Python's collector of garbage runs wherever the next object is made, and an iterator ends, with all
threads that fed it, where the last reference to it goes, behind its loop. A sampled stack shows
only the line that came next. So both are noted as they begin and end.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from outpace.store.record import GARBAGE_COLLECTION, ITERATOR_END

MIN_PAUSE_NS = 500_000  # a sample stands for ten milliseconds: shorter ones are the lines' that make so many objects
MAX_PAUSES = 10_000
Pause = tuple[int, int, str]  # moment on the monotonic clock, how long, ns; what it was

_open: list[PauseRecorder] = []


class PauseRecorder:
    """Notes the pauses of one thread from `start` to `stop`."""

    def __init__(self, thread: int | None) -> None:
        """Watch the thread with this identity."""
        self._thread = thread
        self._found: list[Pause] = []
        self._began = 0

    def start(self) -> None:
        """Begin. Callbacks of others run between ours: what they do is part of the collection."""
        gc.callbacks.insert(0, self._first)
        gc.callbacks.append(self._last)
        _open.append(self)

    def stop(self) -> tuple[Pause, ...]:
        """End, and answer what was found; nothing at a second call."""
        if self in _open:
            _open.remove(self)
            gc.callbacks.remove(self._first)
            gc.callbacks.remove(self._last)
        found, self._found = tuple(self._found), []
        return found

    def add_pause(self, begin_ns: int, cause: str) -> None:
        """A pause that began then has ended now."""
        took = time.monotonic_ns() - begin_ns
        if took >= MIN_PAUSE_NS and len(self._found) < MAX_PAUSES and threading.get_ident() == self._thread:
            self._found.append((begin_ns, took, cause))

    def _first(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase == "start" and threading.get_ident() == self._thread:
            self._began = time.monotonic_ns()

    def _last(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase == "stop" and self._began and threading.get_ident() == self._thread:
            self.add_pause(self._began, GARBAGE_COLLECTION)
            self._began = 0


class _Last:
    """What goes after all else that an object holds, and tells."""

    def __init__(self) -> None:
        self.began = 0

    def __del__(self) -> None:
        for pauses in tuple(_open) if self.began else ():
            pauses.add_pause(self.began, ITERATOR_END)


def record_iterator_end(iterator: Any) -> None:
    """Note how long the end of an iterator takes: from where it begins to go until the last of what
    it holds has gone.
    """
    last = _Last()

    def begins(_: object) -> None:
        last.began = time.monotonic_ns()
        _ends.discard(reference)

    reference = weakref.ref(iterator, begins)
    _ends.add(reference)
    iterator.__dict__["_outpace_last"] = last  # values of a dictionary go in the order in which they came


_ends: set[weakref.ref[Any]] = set()

"""Records pauses of the training thread that no line of the program asked for: garbage collection
and the end of iterators. Standard library only.

Python's garbage collector runs wherever the next object is created. An iterator ends, with all
threads that fed it, where the last reference to it disappears, after its loop. A sampled stack
shows only the line that ran next, so that both are recorded as they begin and end.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from outpace.store.record import GARBAGE_COLLECTION, ITERATOR_END

# minimum length of a pause, ns: shorter ones count for the lines that create so many objects
MIN_PAUSE_NS = 500_000
MAX_PAUSES = 10_000
Pause = tuple[int, int, str]  # (start on the monotonic clock in ns, duration in ns, cause)

_open: list[PauseRecorder] = []


class PauseRecorder:
    """Records the pauses of one thread from `start` to `stop`."""

    def __init__(self, thread: int | None) -> None:
        """Create a recorder for the thread with this identity."""
        self._thread = thread
        self._found: list[Pause] = []
        self._began = 0

    def start(self) -> None:
        """Start recording. Other callbacks of the collector run between the first and the last one,
        so that their time counts as part of the collection.
        """
        gc.callbacks.insert(0, self._first)
        gc.callbacks.append(self._last)
        _open.append(self)

    def stop(self) -> tuple[Pause, ...]:
        """Stop recording and return the pauses; a second call returns none."""
        if self in _open:
            _open.remove(self)
            gc.callbacks.remove(self._first)
            gc.callbacks.remove(self._last)
        found, self._found = tuple(self._found), []
        return found

    def add_pause(self, begin_ns: int, cause: str) -> None:
        """Record a pause of this thread that began at `begin_ns` (monotonic clock) and ends now."""
        took = time.monotonic_ns() - begin_ns
        if took >= MIN_PAUSE_NS and len(self._found) < MAX_PAUSES and threading.get_ident() == self._thread:
            self._found.append((begin_ns, took, cause))

    def _first(self, phase: str, info: Mapping[str, Any]) -> None:
        """First callback of the collector: store the start."""
        if phase == "start" and threading.get_ident() == self._thread:
            self._began = time.monotonic_ns()

    def _last(self, phase: str, info: Mapping[str, Any]) -> None:
        """Last callback of the collector: record the pause."""
        if phase == "stop" and self._began and threading.get_ident() == self._thread:
            self.add_pause(self._began, GARBAGE_COLLECTION)
            self._began = 0


class _Last:
    """Last value that an object holds: it is deleted after all others and records the pause."""

    def __init__(self) -> None:
        self.began = 0

    def __del__(self) -> None:
        for pauses in tuple(_open) if self.began else ():
            pauses.add_pause(self.began, ITERATOR_END)


def record_iterator_end(iterator: Any) -> None:
    """Record how long the end of an iterator takes: from its own deletion until the last of its
    values is deleted.
    """
    last = _Last()

    def begins(_: object) -> None:
        last.began = time.monotonic_ns()
        _ends.discard(reference)

    reference = weakref.ref(iterator, begins)
    _ends.add(reference)
    # the values of a dictionary are deleted in the order of their insertion
    iterator.__dict__["_outpace_last"] = last


_ends: set[weakref.ref[Any]] = set()

# SPDX-License-Identifier: Apache-2.0
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

_active_recorders: list[PauseRecorder] = []


class PauseRecorder:
    """Records the pauses of one thread from `start` to `stop`."""

    def __init__(self, thread: int | None) -> None:
        """Create a recorder for the thread with this identity."""
        self._thread = thread
        self._pauses: list[Pause] = []
        self._begin_ns = 0

    def start(self) -> None:
        """Start recording. Other callbacks of the collector run between the first and the last one,
        so that their time counts as part of the collection.
        """
        gc.callbacks.insert(0, self._on_collection_begin)
        gc.callbacks.append(self._on_collection_end)
        _active_recorders.append(self)

    def stop(self) -> tuple[Pause, ...]:
        """Stop recording and return the pauses; a second call returns none."""
        if self in _active_recorders:
            _active_recorders.remove(self)
            gc.callbacks.remove(self._on_collection_begin)
            gc.callbacks.remove(self._on_collection_end)
        pauses, self._pauses = tuple(self._pauses), []
        return pauses

    def add_pause(self, begin_ns: int, cause: str) -> None:
        """Record a pause of this thread that began at `begin_ns` (monotonic clock) and ends now."""
        duration_ns = time.monotonic_ns() - begin_ns
        if duration_ns >= MIN_PAUSE_NS and len(self._pauses) < MAX_PAUSES and threading.get_ident() == self._thread:
            self._pauses.append((begin_ns, duration_ns, cause))

    def _on_collection_begin(self, phase: str, info: Mapping[str, Any]) -> None:
        """First callback of the collector: store the start."""
        if phase == "start" and threading.get_ident() == self._thread:
            self._begin_ns = time.monotonic_ns()

    def _on_collection_end(self, phase: str, info: Mapping[str, Any]) -> None:
        """Last callback of the collector: record the pause."""
        if phase == "stop" and self._begin_ns and threading.get_ident() == self._thread:
            self.add_pause(self._begin_ns, GARBAGE_COLLECTION)
            self._begin_ns = 0


class _EndMarker:
    """Last value that an object holds: it is deleted after all others and records the pause."""

    def __init__(self) -> None:
        self.begin_ns = 0

    def __del__(self) -> None:
        for pauses in tuple(_active_recorders) if self.begin_ns else ():
            pauses.add_pause(self.begin_ns, ITERATOR_END)


def record_iterator_end(iterator: Any) -> None:
    """Record how long the end of an iterator takes: from its own deletion until the last of its
    values is deleted.
    """
    marker = _EndMarker()

    def on_deletion(_: object) -> None:
        marker.begin_ns = time.monotonic_ns()
        _iterator_references.discard(reference)

    reference = weakref.ref(iterator, on_deletion)
    _iterator_references.add(reference)
    # the values of a dictionary are deleted in the order of their insertion
    iterator.__dict__["_outpace_last"] = marker


_iterator_references: set[weakref.ref[Any]] = set()

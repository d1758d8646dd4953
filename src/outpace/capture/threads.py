"""What Python's other threads do while the training thread is sampled: generators that feed it, and work that takes its cores.

Which lines they were met at comes from their stacks, how much they really computed from their processor clocks: a thread that sleeps or waits
is met as often as one that works. Standard library only.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from types import FrameType

from outpace.store.record import OtherThread

MOST_THREADS = 64
_OWN = "outpace-"  # names of our threads


class OtherThreads:
    """Looks at all threads but one, on the watched thread itself, which holds the GIL: each that has a frame is alive."""

    def __init__(self, training: int | None) -> None:
        """Watch all threads but the one with this identity."""
        self._training = training
        self._clocks: dict[int, tuple[int, int, int, int]] = {}  # first and last: wall, processor; ns
        self._met: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._names: dict[int, str] = {}

    def look(self, index: Callable[[FrameType], int | None]) -> None:
        """Note where every other thread is; `index` gives a stack's number."""
        now = time.monotonic_ns()
        for identity, frame in sys._current_frames().items():
            if identity == self._training or (identity not in self._names and not self._name(identity)):
                continue
            used = time.clock_gettime_ns(time.pthread_getcpuclockid(identity))
            first = self._clocks.get(identity, (now, used, now, used))
            self._clocks[identity] = (first[0], first[1], now, used)
            stack = index(frame)
            if stack is not None:
                self._met[identity][stack] += 1

    def _name(self, identity: int) -> bool:
        """Note a thread's name; False for our own, and for too many."""
        known = next((thread for thread in threading.enumerate() if thread.ident == identity), None)
        name = known.name if known is not None else "native"  # as in metrics/python/threads.py
        if name.startswith(_OWN) or len(self._names) >= MOST_THREADS:
            return False
        self._names[identity] = name
        return True

    def found(self, index_of: Sequence[int]) -> tuple[OtherThread, ...]:
        """What was seen, the busiest first; `index_of` maps a stack's number to its place in the record."""
        threads = []
        for identity, (began, first, ended, last) in self._clocks.items():
            counts: dict[int, int] = defaultdict(int)
            for stack, count in self._met[identity].items():
                counts[index_of[stack]] += count
            threads.append(OtherThread(self._names[identity], last - first, ended - began, tuple(counts.items())))
        return tuple(sorted(threads, key=lambda thread: -thread.cpu_ns))

"""What Python's other threads do while the training thread is sampled: generators that feed it, and
work that takes its cores.

Which lines they were met at comes from their stacks, how much they really computed from their
processor clocks, as a whole and just before each look: a thread that sleeps or waits is met as
often as one that works. Standard library only.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from itertools import cycle

from outpace.capture.faults import suppress_faults
from outpace.capture.stacks import Frame, StackKey, StackTable
from outpace.capture.ticks import GIL_RELEASE_S, release_gil
from outpace.store.record import ThreadSamples

MAX_THREADS = 64
_PERIODS_S = (0.029, 0.037, 0.041)
_OWN = "outpace-"  # names of our threads


class ThreadSampler:
    """Looks at all threads but one, on a thread of our own: the training thread is back from its
    calls when the others have done their part, and would meet them at rest. Each that has a frame
    is alive.
    """

    def __init__(self, training_id: int | None, stacks: StackTable) -> None:
        """Watch all threads but the one with this identity."""
        self._training = training_id
        self._stacks = stacks
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._clocks: dict[int, tuple[int, int, int, int]] = {}  # time watched, processor time in it, both clocks' last; ns
        self._met: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))  # looks, processor ns
        self._names: dict[int, str] = {}
        self._clock_of: dict[int, int] = {}  # asked for once: of a thread that has ended, that may crash

    def start(self) -> None:
        """Begin; without processor clocks (macOS, Windows) nothing is told of other threads."""
        if not hasattr(time, "pthread_getcpuclockid"):
            return
        self._thread = threading.Thread(target=self._run, name=f"{_OWN}threads", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; waits for our thread, a period at most."""
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(1.0)

    def _run(self) -> None:
        for wait, more in zip(cycle(_PERIODS_S), cycle(GIL_RELEASE_S)):  # which cannot all beat with steps of one length
            if self._over.wait(wait):
                return
            with suppress_faults():
                before = self._processor_times(sys._current_frames())
                release_gil(more)
                self._look(before)

    def _processor_times(self, living: Collection[int]) -> dict[int, int]:
        """Processor time that each of the other threads among living ones has used
        until now, ns.
        """
        times = {}
        for identity in living:
            if identity != self._training and (identity in self._names or self._name(identity)):
                with suppress(OSError):  # it has ended
                    times[identity] = self._used(identity)
        return times

    def _used(self, identity: int) -> int:
        """Processor time of a thread, ns. The clock of one that has ended stands for no other
        thread: then it is another one by now.
        """
        with suppress(KeyError, OSError):
            return time.clock_gettime_ns(self._clock_of[identity])
        self._clock_of[identity] = time.pthread_getcpuclockid(identity)
        return time.clock_gettime_ns(self._clock_of[identity])

    def _look(self, sooner: dict[int, int]) -> None:
        """Note where every other thread is, and what it has computed since a moment at which it had
        used so much processor time.
        """
        now, frames = time.monotonic_ns(), sys._current_frames()
        for identity, used in self._processor_times(frames).items():
            watched, worked, then, before = self._clocks.get(identity, (0, 0, now, used))
            if used < before:  # another thread by now, under the identity of one that has ended
                before = 0
            self._clocks[identity] = (watched + now - then, worked + used - before, now, used)
            stack = self._stacks.index(frames[identity])
            if stack is not None:
                met = self._met[identity][stack]
                met[0], met[1] = met[0] + 1, met[1] + max(0, used - sooner.get(identity, before))

    def _name(self, identity: int) -> bool:
        """Note a thread's name; False for our own, and for too many."""
        known = next((thread for thread in threading.enumerate() if thread.ident == identity), None)
        ours = known is not None and not isinstance(
            known, threading._DummyThread
        )  # which stands for one that Python did not start
        name = known.name if known is not None and ours else "native"  # as in metrics/views/thread_lines.py
        if name.startswith(_OWN) or len(self._names) >= MAX_THREADS:
            return False
        self._names[identity] = name
        return True

    def build_threads(self, frames: dict[Frame, int], stacks: dict[StackKey, int]) -> tuple[ThreadSamples, ...]:
        """What was seen, the busiest first, with its stacks put among those of a record."""
        index_of, threads = self._stacks.merge_into(frames, stacks), []
        for identity, (watched, worked, _, _) in self._clocks.items():
            sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
            for stack, (looks, used) in self._met[identity].items():
                known = sums[index_of[stack]]
                known[0], known[1] = known[0] + looks, known[1] + used
            met = tuple((stack, looks) for stack, (looks, _) in sums.items())
            threads.append(ThreadSamples(self._names[identity], worked, watched, met, tuple(used for _, used in sums.values())))
        return tuple(sorted(threads, key=lambda thread: -thread.cpu_ns))

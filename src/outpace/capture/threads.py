# SPDX-License-Identifier: Apache-2.0
"""Samples Python's other threads while the training thread is sampled: generators that feed it, and
work that takes its cores. Standard library only.

Stacks say at which lines a thread was; processor clocks say how much it computed, in total and just
before each sample. Both are needed, because a thread that sleeps or waits is sampled as often as
one that works.
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
_OWN_PREFIX = "outpace-"  # prefix of the names of Outpace's threads


class ThreadSampler:
    """Samples all threads but the training thread, from a thread of its own.

    The training thread cannot do it: it returns from its calls when the other threads have done
    their work, and would see them at rest. A thread that has a frame is alive.
    """

    def __init__(self, training_id: int | None, stacks: StackTable) -> None:
        """Create a sampler of all threads but `training_id`, whose stacks go into `stacks`."""
        self._training_id = training_id
        self._stacks = stacks
        self._stop_event = threading.Event()
        self._thread: threading.Thread | None = None
        # by thread: observed time, processor time used in it, and the last readings of both clocks;
        # ns
        self._clock_readings: dict[int, tuple[int, int, int, int]] = {}
        # by thread and stack: number of samples, processor time in ns
        self._stack_sums: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
        self._names: dict[int, str] = {}
        # looked up once per thread: the look-up may crash for a thread that has ended
        self._clock_ids: dict[int, int] = {}

    def start(self) -> None:
        """Start sampling. On systems without clocks per thread (macOS, Windows) nothing is
        sampled.
        """
        if not hasattr(time, "pthread_getcpuclockid"):
            return
        self._thread = threading.Thread(target=self._run, name=f"{_OWN_PREFIX}threads", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling; wait one period at most for the sampling thread."""
        self._stop_event.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(1.0)

    def _run(self) -> None:
        """Sample until `stop` is called, at alternating intervals."""
        # intervals of several lengths cannot all be in phase with steps of one duration
        for wait_s, release_s in zip(cycle(_PERIODS_S), cycle(GIL_RELEASE_S)):
            if self._stop_event.wait(wait_s):
                return
            with suppress_faults():
                before = self._processor_times(sys._current_frames())
                release_gil(release_s)
                self._add_samples(before)

    def _processor_times(self, living: Collection[int]) -> dict[int, int]:
        """Return the processor time that each thread of `living` but the training thread and
        Outpace's has used so far, ns, by thread.
        """
        times = {}
        for identity in living:
            if identity != self._training_id and (identity in self._names or self._register(identity)):
                with suppress(OSError):  # the thread has ended
                    times[identity] = self._processor_time(identity)
        return times

    def _processor_time(self, identity: int) -> int:
        """Return the processor time of a thread, ns.

        A clock belongs to one thread for good. Where its thread has ended, the identity was given
        to a new thread, whose clock is looked up.
        """
        with suppress(KeyError, OSError):
            return time.clock_gettime_ns(self._clock_ids[identity])
        self._clock_ids[identity] = time.pthread_getcpuclockid(identity)
        return time.clock_gettime_ns(self._clock_ids[identity])

    def _add_samples(self, earlier_times: dict[int, int]) -> None:
        """Add a sample of every thread: its stack, and the processor time it used since the reading
        `earlier_times` (ns by thread).
        """
        now, frames = time.monotonic_ns(), sys._current_frames()
        for identity, cpu_ns in self._processor_times(frames).items():
            span_ns, used_ns, last_ns, last_cpu_ns = self._clock_readings.get(identity, (0, 0, now, cpu_ns))
            if cpu_ns < last_cpu_ns:  # the identity was reused by a new thread
                last_cpu_ns = 0
            self._clock_readings[identity] = (span_ns + now - last_ns, used_ns + cpu_ns - last_cpu_ns, now, cpu_ns)
            stack = self._stacks.index(frames[identity])
            if stack is not None:
                sums = self._stack_sums[identity][stack]
                sums[0], sums[1] = sums[0] + 1, sums[1] + max(0, cpu_ns - earlier_times.get(identity, last_cpu_ns))

    def _register(self, identity: int) -> bool:
        """Store a thread's name and return True; return False for Outpace's own threads, and beyond
        `MAX_THREADS`.
        """
        thread = next((thread for thread in threading.enumerate() if thread.ident == identity), None)
        # a `_DummyThread` is Python's stand-in for a thread that it did not start
        is_python_thread = thread is not None and not isinstance(thread, threading._DummyThread)
        # the name that metrics/views/thread_lines.py uses
        name = thread.name if thread is not None and is_python_thread else "native"
        if name.startswith(_OWN_PREFIX) or len(self._names) >= MAX_THREADS:
            return False
        self._names[identity] = name
        return True

    def build_threads(self, frames: dict[Frame, int], stacks: dict[StackKey, int]) -> tuple[ThreadSamples, ...]:
        """Return the samples of each thread, most processor time first, and merge their stacks into
        `frames` and `stacks` of a record.
        """
        index_of, threads = self._stacks.merge_into(frames, stacks), []
        for identity, (span_ns, used_ns, _, _) in self._clock_readings.items():
            sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
            for stack, (samples, cpu_ns) in self._stack_sums[identity].items():
                total = sums[index_of[stack]]
                total[0], total[1] = total[0] + samples, total[1] + cpu_ns
            counts = tuple((stack, samples) for stack, (samples, _) in sums.items())
            threads.append(
                ThreadSamples(self._names[identity], used_ns, span_ns, counts, tuple(cpu_ns for _, cpu_ns in sums.values()))
            )
        return tuple(sorted(threads, key=lambda thread: -thread.cpu_ns))

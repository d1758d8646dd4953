# SPDX-License-Identifier: Apache-2.0
"""Samples the lines of Python that the training thread runs while a profile is recorded. Standard
library only.

A profile shows what the framework does; where it shows nothing on the training thread, Python runs,
and only the stack says which line. `ticks` decides when a stack is sampled, and says how accurate
that is. A sample costs about 6 µs on the training thread: it stores code objects and instruction
offsets; everything else (lines, whose code it is) is computed after the window has closed.
"""

from __future__ import annotations

import linecache
import threading
import time
from types import FrameType

from outpace.capture import ticks
from outpace.capture.faults import count_fault, suppress_faults
from outpace.capture.pauses import Pause, PauseRecorder
from outpace.capture.stacks import Frame, StackKey, StackTable
from outpace.capture.threads import ThreadSampler
from outpace.store.record import PythonSamples

MAX_SAMPLES = 30_000  # maximum number of samples, enough for ten minutes
MAX_TEXT = 120  # characters of a source line
_OWN_PREFIX = "outpace-"  # prefix of the names of Outpace's threads


class FrameSampler:
    """Samples the stacks of one thread from `start` to `stop`. Neither ever raises: without samples
    the profile is still useful.
    """

    def __init__(self, thread: threading.Thread | None = None) -> None:
        """Create a sampler of `thread`; by default of the calling thread, or of the main thread
        when one of Outpace's threads calls.
        """
        calling = threading.current_thread()
        self._thread = thread or (threading.main_thread() if calling.name.startswith(_OWN_PREFIX) else calling)
        self._stacks = StackTable()
        self._rows: list[tuple[int, int, int]] = []
        self._dropped_count = 0
        self._thread_sampler = ThreadSampler(self._thread.ident, StackTable())
        self._pauses = PauseRecorder(self._thread.ident)
        self._ticks: ticks.SignalTicks | ticks.ThreadTicks | None = None
        self._start_times = (0, 0)
        if self._thread is threading.main_thread():
            with suppress_faults():
                # claimed here on the main thread, because another thread may start and stop the
                # sampling
                ticks.claim_signal()

    def start(self) -> None:
        """Start sampling; a second call does nothing."""
        if self._ticks is not None:
            return
        self._start_times = (time.time_ns(), time.monotonic_ns())
        self._pauses.start()
        with suppress_faults():
            self._thread_sampler.start()
        with suppress_faults():
            if self._thread is threading.main_thread() and ticks.claim_signal():
                by_signal = ticks.SignalTicks()
                if by_signal.start(self.add_sample):
                    self._ticks = by_signal
                    return
        with suppress_faults():
            by_thread = ticks.ThreadTicks(self._thread.ident or 0)
            if by_thread.start(self.add_sample):
                self._ticks = by_thread

    def stop(self) -> PythonSamples | None:
        """Stop sampling and return the samples; None when there are none, as at a second call."""
        running, self._ticks = self._ticks, None
        pauses = self._pauses.stop()
        self._thread_sampler.stop()
        try:
            if running is None:
                return None
            running.stop()
            method = "signal" if isinstance(running, ticks.SignalTicks) else "thread"
            return self._build_samples(method, pauses) if self._rows else None
        except Exception as error:
            count_fault(error)
            return None

    def add_sample(self, frame: FrameType | None, points: list[ticks.SamplePoint]) -> None:
        """Store the stack whose innermost frame is `frame`, for each of `points`."""
        if len(self._rows) + len(points) > MAX_SAMPLES:
            self._dropped_count += len(points)
            return
        index = self._stacks.index(frame)
        if index is None:
            self._dropped_count += len(points)
            return
        self._rows += [(moment, weight, index) for moment, weight in points]

    def _build_samples(self, method: str, pauses: tuple[Pause, ...] = ()) -> PythonSamples:
        """Return the samples for the record; `method` is `signal` or `thread`."""
        unix_ns, monotonic_ns = self._start_times
        frames: dict[Frame, int] = {}
        stacks: dict[StackKey, int] = {}
        index_of = self._stacks.merge_into(frames, stacks)
        threads = self._thread_sampler.build_threads(frames, stacks)
        keys = list(frames)
        owners = [owner for *_, owner in frames]
        user_places = {next((place for place in reversed(stack) if not owners[place[0]]), None) for stack in stacks}
        text = tuple(
            (*place, read_line(keys[place[0]][0], place[1]))
            for place in sorted(place for place in user_places if place is not None)
        )
        rows = sorted((moment - monotonic_ns, weight, index_of[index]) for moment, weight, index in self._rows)
        return PythonSamples(
            unix_ns,
            self._thread.name,
            method,
            tuple(frames),
            tuple(stacks),
            tuple(rows),
            text,
            self._dropped_count,
            threads,
            tuple((begin_ns - monotonic_ns, duration_ns, cause) for begin_ns, duration_ns, cause in pauses),
        )


def read_line(file: str, line: int) -> str:
    """Return a source line, cut at `MAX_TEXT` characters."""
    return linecache.getline(file, line).strip()[:MAX_TEXT]

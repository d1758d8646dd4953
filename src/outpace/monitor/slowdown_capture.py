# SPDX-License-Identifier: Apache-2.0
"""Captures a short profile when training steps slow down: when a capture may begin, how long it
runs, and what it saves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from outpace._dataclass import dataclass
from outpace.capture.calibration import calibrate
from outpace.capture.frameworks import build_profiler
from outpace.capture.options import CaptureOptions
from outpace.capture.profilers import Profiler, ProfilerBusy
from outpace.capture.record import WindowSummary, write_capture_record
from outpace.capture.recording import Recording, SavedProfile
from outpace.capture.sampler import FrameSampler
from outpace.monitor.stats import Slowdown
from outpace.store.record import CapturedSteps, PythonSamples, StepDurations

RETRY_S = 5.0  # seconds between two checks whether another profiler has ended


@dataclass(frozen=True)
class CaptureLimits:
    """Limits of slowdown captures.

    steps: maximum number of calls in one capture.
    seconds: maximum duration of one capture.
    cooldown: minimum time between two captures, seconds.
    megabytes: maximum size of all captures together, MB (10^6 bytes).
    """

    steps: int = 10
    seconds: float = 2.0
    cooldown: float = 600.0
    megabytes: float = 200.0


@dataclass(frozen=True)
class FinishedCapture:
    """A finished capture.

    run: its run folder (path or URL).
    steps: number of captured calls.
    megabytes: size, MB.
    """

    run: str
    steps: int
    megabytes: float


class SlowdownCapture:
    """Runs at most one capture at a time, on the training thread, between two steps."""

    def __init__(self, logdir: str, limits: CaptureLimits, options: CaptureOptions, clock: Callable[[], int]) -> None:
        self.slowdown: Slowdown | None = None  # slowdown that the running or waiting capture is for
        self.used_mb = 0.0  # MB of all captures
        self.capture_count = 0
        self._logdir, self._limits, self._options, self._clock = logdir, limits, options, clock
        self._recording: Recording | None = None
        self._profiler: Profiler | None = None
        self._end_mark: Callable[[], None] | None = None
        self._sampler: FrameSampler | None = None
        self._samples: PythonSamples | None = None
        self._calibration: dict[str, int] = {}
        self._last: int | None = None  # end of the last capture
        self._largest = 0.0

    @property
    def recording(self) -> bool:
        """Whether the profiler is running."""
        return self._recording is not None

    def refusal_reason(self) -> str | None:
        """Return why no capture may begin now: `off`, `disk budget`, `cooldown`, `waiting` (a
        capture is waiting to begin already); None where one may.

        The disk budget is checked in advance: a capture as large as the largest until now has to
        fit.
        """
        limits = self._limits
        if limits.megabytes <= 0:
            return "off"
        if self.used_mb + self._largest > limits.megabytes:
            return "disk budget"
        if self._last is not None and self._clock() - self._last < limits.cooldown * 1e9:
            return "cooldown"
        return "waiting" if self.slowdown is not None else None

    def start(self, first_call: int, before_ns: Sequence[int], steps_per_call: int, at_exit: Callable[[], object]) -> bool:
        """Begin to record with the call `first_call`; False when another profiler is running.

        `before_ns` are durations in ns of the previous calls; `at_exit` is called when the process
        ends inside the capture. Raises CaptureError, and any other error of the framework.
        """
        profiler = build_profiler(self._options)
        recording = Recording(profiler, self._logdir)
        self._calibration = calibrate()
        try:
            recording.start(at_exit=at_exit)
        except ProfilerBusy:
            return False
        self._recording, self._profiler = recording, profiler
        self._sampler = FrameSampler()
        self._sampler.start()
        self._began, self._first, self._marks = self._clock(), first_call, 0
        self._before, self._per_call = tuple(before_ns), steps_per_call
        self._during: list[int] = []
        self._interrupted: list[int] = []
        return True

    def begin_step(self) -> None:
        """Open the step's mark in the profile."""
        if self._profiler is not None:
            self._end_mark = self._profiler.begin_mark("train", self._first + self._marks)
            self._marks += 1

    def end_step(self, duration: int | None) -> bool:
        """Close the step's mark after `duration` ns (None: not a whole step); return whether the
        capture is complete.
        """
        if self._end_mark is None:
            return False
        self._finish_mark()
        if duration is None:
            self._interrupted.append(self._first + self._marks - 1)
            return bool(self._during)
        self._during.append(duration)
        limits = self._limits
        return len(self._during) >= limits.steps or self._clock() - self._began >= limits.seconds * 1e9

    def stop(self) -> FinishedCapture:
        """End the capture and save it. Raises CaptureError or OutputError when that fails. The
        cooldown begins in either case.
        """
        recording, self._recording = self._recording, None
        self._finish_mark()
        self._profiler, self.slowdown = None, None
        assert recording is not None and self._sampler is not None
        self._samples = self._sampler.stop()
        try:
            run = recording.stop(finish=self._finish).run
        finally:
            self._last = self._clock()
        self.capture_count += 1
        return FinishedCapture(run, len(self._during), self._largest_now)

    def cancel(self) -> None:
        """Give up a capture that is waiting to begin."""
        self.slowdown = None

    def discard(self) -> None:
        """End a running capture and remove all its files."""
        recording, self._recording = self._recording, None
        self._end_mark = self._profiler = self.slowdown = None
        if self._sampler is not None:
            self._sampler.stop()
        if recording is not None:
            recording.discard()

    def _finish_mark(self) -> None:
        """End the open step mark, if there is one."""
        end, self._end_mark = self._end_mark, None
        if end is not None:
            end()

    def _finish(self, saved: SavedProfile) -> None:
        """Write the capture's record, then measure the size of the run while it is still local."""
        seconds = (self._clock() - self._began) / 1e9
        window = CapturedSteps(self._first, len(self._during), self._first, seconds, tuple(self._interrupted))
        overhead = StepDurations(self._before, tuple(self._during))
        notes = WindowSummary("monitor", window, self._per_call, overhead, self._calibration)
        write_capture_record(saved, notes, sys.argv[0], sys.argv[1:], samples=self._samples)
        size = sum(os.path.getsize(os.path.join(saved.run, name)) for name in os.listdir(saved.run)) / 1e6
        self._largest_now, self._largest = size, max(size, self._largest)
        self.used_mb += size

# SPDX-License-Identifier: Apache-2.0
"""The monitor's work at each step boundary. Independent of framework and kind of loop: its callers
report the boundaries.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.frameworks import framework_in_use
from outpace.capture.messages import print_message
from outpace.capture.options import CaptureOptions
from outpace.model.units import format_count
from outpace.monitor.input_wait import InputClock
from outpace.monitor.log_lines import RunTotals, build_log_line, flatten_scalars, format_milliseconds, format_summary
from outpace.monitor.memory import read_memory
from outpace.monitor.sinks import Sinks
from outpace.monitor.slowdown_capture import RETRY_S, CaptureLimits, SlowdownCapture
from outpace.monitor.stats import Histogram, Slowdown, SlowdownDetector

# Number of untimed calls after a capture, which use up the input that was buffered while the
# profile was saved.
SETTLING_CALLS = 2
MAX_BEFORE = 20  # number of durations of earlier calls in a capture's record
# Number of durations that are processed together: between two steps of 5 ms nearly all code has to
# be read from main memory again, so that processing each one would cost more.
BATCH_CALLS = 10


@dataclass(frozen=True)
class MonitorSettings:
    """Settings of a monitor; `Monitor` documents each."""

    logdir: str
    every: float = 10.0
    every_steps: int | None = None
    warmup: int = 10
    batch_size: int | None = None
    tensorboard: bool = True
    ratio: float = 1.5
    limits: CaptureLimits = field(default_factory=CaptureLimits)
    options: CaptureOptions = field(default_factory=CaptureOptions)


class StepMonitor:
    """Counts and times calls of the training step; one call is `steps_per_call` training steps.
    Its methods may raise; `Monitor` catches the errors.
    """

    def __init__(self, settings: MonitorSettings, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        """Create a monitor that has not started; `clock` returns ns."""
        self.settings = settings
        self.input_clock = InputClock()
        self.steps_per_call = 1
        self.running = False
        self.step_begin_ns: int | None = None  # begin of the current step; None between steps
        self.slowdown_capture = SlowdownCapture(settings.logdir, settings.limits, settings.options, clock)
        self._clock = clock
        self._detector = SlowdownDetector(settings.ratio)
        self._interval, self._run = Histogram(), RunTotals()
        self._recent: deque[int] = deque(maxlen=MAX_BEFORE)
        self._calls = 0
        self._batch: list[int] = []
        self._room = BATCH_CALLS  # number of durations at which the batch is processed
        self._skip = settings.warmup
        # whether steps are timed: not in the warm-up, and not in or just after a capture
        self._plain = not self._skip
        self._warm = False
        self._due = 0
        self._line_due = 0
        self._next_try = 0
        self._reported: set[str] = set()
        self._sinks: Sinks | None = None

    def start(self) -> None:
        """Open the files and begin. Raises OSError where that is impossible. May be called again
        after `finish`.
        """
        if self.running:
            return
        self._sinks = Sinks(self.settings.logdir, self.settings.tensorboard)
        self.running, self.step_begin_ns = True, None
        self._event("start", framework=framework_in_use(), pid=os.getpid(), steps_per_call=self.steps_per_call)
        self._restart_interval(self._clock())

    def begin_step(self, begin_ns: int | None = None) -> None:
        """Begin the next step, now or at the given time in ns; no effect inside a step."""
        if self.step_begin_ns is None:
            self.step_begin_ns = self._clock() if begin_ns is None else begin_ns
            self.slowdown_capture.begin_step()

    def advance_step(self) -> None:
        """End the current step and begin the next one."""
        now = self._clock()
        last, self.step_begin_ns = self.step_begin_ns, now
        if last is not None and self._plain:
            batch = self._batch
            batch.append(now - last)
            if len(batch) >= self._room or now >= self._due:
                self._digest(now)
        else:
            self._other_boundary(now, last)

    def pause(self, count_step: bool = False) -> None:
        """Exclude the time until the next `begin_step` or `advance_step` from all steps;
        `count_step`: count the current step, but not its time.
        """
        self._count_batch()
        open_step, self.step_begin_ns = self.step_begin_ns is not None, None
        if open_step and count_step:
            self._calls += 1
        if open_step and self.slowdown_capture.recording and self.slowdown_capture.end_step(None):
            self._save()

    def finish(self) -> None:
        """Write the last lines, close the files, and print one line for the user."""
        if not self.running:
            return
        if self.slowdown_capture.recording:
            self._save()
        self._count_batch()
        self._line(self._clock())
        self.running = False
        text = format_summary(
            self._run, self.calls * self.steps_per_call, self.slowdown_capture, self.input_clock.missing_reason
        )
        self._event(
            "end", **self._run.to_dict(), steps=self.calls * self.steps_per_call, captures=self.slowdown_capture.capture_count
        )
        sinks, self._sinks = self._sinks, None
        assert sinks is not None
        folder = sinks.shown_folder
        sinks.close()
        print_message(f"monitor: {text}; details in {folder}")

    def abandon(self) -> None:
        """Stop permanently after an error, without removing what was written."""
        self.running = False
        self.slowdown_capture.discard()
        sinks, self._sinks = self._sinks, None
        if sinks is not None:
            sinks.close()

    @property
    def calls(self) -> int:
        """Number of calls until now, including those of the warm-up and of captures."""
        return self._calls + len(self._batch)

    def _other_boundary(self, now: int, last: int | None) -> None:
        """Handle the boundary of a step that is in a warm-up or a capture, or just after one."""
        if last is None:
            self.slowdown_capture.begin_step()
            return
        self._calls += 1
        if self.slowdown_capture.recording:
            self._count_captured(now - last)
        else:
            self._settle(now - last)

    def _digest(self, now: int) -> None:
        """Process a full batch of durations, and any other work that is due."""
        self._count_batch()
        if now >= self._due or self._interval.count == self.settings.every_steps:
            self._do_due_work(now)

    def _count_batch(self) -> None:
        """Add the durations of the batch to the statistics."""
        batch, self._batch = self._batch, []
        self._recent.extend(batch)
        for duration in batch:
            self._calls += 1
            self._interval.add(duration)
            slow = self._detector.add(self._calls, duration)
            if slow is not None:
                self._slowdown(slow)
        self._make_room()

    def _make_room(self) -> None:
        """Set the length of the next batch, so that it ends at `every_steps`."""
        every_steps = self.settings.every_steps
        self._room = BATCH_CALLS if every_steps is None else max(1, min(BATCH_CALLS, every_steps - self._interval.count))

    def _settle(self, duration: int) -> None:
        """Count a step of the warm-up, or one just after a capture."""
        self._skip -= 1
        self._run.unsettled_ns += duration
        if self._skip == 0:
            self._plain = True
            now = self._clock()
            if not self._warm:
                self._warm = True
                self._event("warm-up", steps=self.calls * self.steps_per_call, seconds=round(self._run.unsettled_ns / 1e9, 6))
            self._restart_interval(now)
            self.step_begin_ns = self._clock()

    def _do_due_work(self, now: int) -> None:
        """Do the work that is not done at every step, outside of the next step's time."""
        if now >= self._line_due or self._interval.count == self.settings.every_steps:
            self._line(now)
        if self.slowdown_capture.slowdown is not None and now >= self._next_try:
            self._capture()
        self._due = self._line_due if self.slowdown_capture.slowdown is None else min(self._line_due, self._next_try)
        self.step_begin_ns = self._clock()
        self.slowdown_capture.begin_step()

    def _slowdown(self, slow: Slowdown) -> None:
        """Write a slowdown, and request a capture where one is allowed."""
        self._run.slowdowns += 1
        refusal = self.slowdown_capture.refusal_reason()
        since, before, after = self._values(slow)
        self._event("slowdown", since=since, before_ms=before, now_ms=after, no_capture=refusal)
        if refusal is None:
            # the capture begins at the next boundary
            self.slowdown_capture.slowdown, self._next_try, self._due = slow, 0, 0
        elif refusal == "disk budget" and self._is_first(refusal):
            allowed = self.settings.limits.megabytes
            print_message(
                f"monitor: captures have used {self.slowdown_capture.used_mb:.0f} of {allowed:g} MB, so no more are taken in this run"
            )

    def _capture(self) -> None:
        """Start the requested capture, or wait until another profiler has ended."""
        self._line(self._clock())  # the interval ends here, because captured steps are in no line
        try:
            begun = self.slowdown_capture.start(self.calls, self._recent, self.steps_per_call, at_exit=self._save)
        except Exception as error:
            self.slowdown_capture.cancel()
            if self._is_first("start"):
                print_message(f"monitor: steps slowed down, but no profile can be taken: {error}")
            return
        if begun:
            self._plain = False
            return
        self._next_try = self._clock() + int(RETRY_S * 1e9)
        if self._is_first("busy"):
            print_message("monitor: steps slowed down, but another profiler runs; the capture waits until that one has ended")

    def _count_captured(self, duration: int) -> None:
        """Handle a step inside a capture, which enters no statistics."""
        if self.slowdown_capture.end_step(duration):
            self._save()
            self.step_begin_ns = self._clock()
        else:
            self.slowdown_capture.begin_step()

    def _save(self) -> None:
        """End the capture and write its line."""
        slow = self.slowdown_capture.slowdown
        assert slow is not None
        since, before, after = self._values(slow)
        text = f"steps take {format_milliseconds(after)} instead of {format_milliseconds(before)} since step {since}"
        self._skip, self._plain, self._run.unsettled_ns = SETTLING_CALLS, False, 0
        try:
            capture = self.slowdown_capture.stop()
        except Exception as error:
            print_message(f"monitor: {text}; the profile could not be saved: {error}")
            return
        steps, size = capture.steps * self.steps_per_call, round(capture.megabytes, 3)
        self._event("capture", run=capture.run, steps=steps, megabytes=size, since=since, before_ms=before, now_ms=after)
        print_message(f"monitor: {text}; captured {format_count(steps, 'step')} in {capture.run}")

    def _values(self, slow: Slowdown) -> tuple[int, float, float]:
        """Return the first slow training step (from 1), and ms per training step before and now."""
        before, after = (round(value / self.steps_per_call / 1e6, 4) for value in (slow.before, slow.after))
        return (slow.since - 1) * self.steps_per_call + 1, before, after

    def _line(self, now: int) -> None:
        """Write one line about the steps since the last line; none where there were no steps."""
        read = self.input_clock.read_totals()
        if self._interval.count:
            memory = read_memory(framework_in_use() or "")
            content = build_log_line(self._interval, self.steps_per_call, self._read, read, self.settings.batch_size, memory)
            seconds = round((now - self._began) / 1e9, 6)
            self._event("interval", steps=self._interval.count * self.steps_per_call, seconds=seconds, **content)
            assert self._sinks is not None
            self._sinks.write_scalars(self.calls * self.steps_per_call, flatten_scalars(content))
            self._run.add(self._interval, self.steps_per_call, self._read, read)
        if not read.batches and self._is_first("input"):
            self._event("note", text=f"input wait is not measured: {self.input_clock.missing_reason}")
        self._restart_interval(now)

    def _restart_interval(self, now: int) -> None:
        """Begin a new interval."""
        self._interval, self._began, self._read = Histogram(), now, self.input_clock.read_totals()
        self._make_room()
        self._line_due = self._due = now + int(self.settings.every * 1e9)

    def _event(self, kind: str, **content: Any) -> None:
        """Write one line; values of None are left out."""
        assert self._sinks is not None
        head = {"time": round(time.time(), 3), "event": kind, "step": self.calls * self.steps_per_call}
        self._sinks.write_line({**head, **{name: value for name, value in content.items() if value is not None}})

    def _is_first(self, key: str) -> bool:
        """Whether this is the first call with a key."""
        fresh = key not in self._reported
        self._reported.add(key)
        return fresh

# SPDX-License-Identifier: Apache-2.0
"""State of one capture: which repeated work is the step, when the profiler starts and stops, and
what was timed.

The module knows no framework. Sources of steps (Keras batches, the script's own marks, repeated
`tf.function` calls, iterator reads) each feed their own `StepCandidate`. The first one to finish
the warm-up becomes the step, and from then on the others are ignored.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import field
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import Protocol

from outpace._dataclass import dataclass
from outpace.capture import machine_load
from outpace.capture.calibration import calibrate
from outpace.capture.main_thread import hold_lock
from outpace.capture.options import MAX_STEPS, UNTRAINED_TIMEOUT_S, CaptureOptions
from outpace.model.units import format_count
from outpace.store.record import StepDurations

# factor on the median step: the window waits for a second step that takes so long
RARE_FACTOR = 3.0
RARE_SHARE = 0.15  # minimum share of the window's time of such a step
MAX_WAIT_FACTOR = 10.0  # maximum time of that wait, relative to the duration of the window so far
MIN_STEPS = 3  # minimum number of steps in a window that ends before it is full
MAX_BEFORE = 50  # number of warm-up durations that are stored
DROPPED_STEPS = 2  # number of first steps whose durations are ignored: they trace and compile
# number of ignored steps after the window: they use data that the pipeline buffered while the
# profile was saved
SETTLING_STEPS = 2
MAX_AFTER = 200  # number of durations after the window: a script that trains on needs no more
# time without a step after which the counted steps no longer count as the training
STEP_EXPIRY_NS = 30 * 10**9


class WindowState(Enum):
    """State of a capture."""

    WAITING = "waiting"
    OPEN = "open"
    AFTER = "after"
    OFF = "off"


class Profiling(Protocol):
    """What the window needs of a profiler; `session.CaptureSession` implements it."""

    def open(self, candidate: StepCandidate | None) -> bool:
        """Start to record the steps of a candidate; False when that is not possible."""

    def begin_mark(self, name: str, number: int) -> Callable[[], None]:
        """Begin a step mark and return the function that ends it."""

    def close(self, rejection_reason: Callable[[str], str] | None) -> bool:
        """Stop recording and save the profile. `rejection_reason` gets its path and returns why it
        is rejected, or ""; False where it was.
        """

    def update_record(self) -> None:
        """Write into the record what was measured since the profile was saved."""

    def print_message(self, text: str) -> None:
        """Print a message to the user."""

    def may_train(self) -> bool:
        """Whether a program that only predicts may train later."""

    def stop_script(self) -> None:
        """End the script after its capture. Returns where the script is at its end already."""


@dataclass(eq=False)
class StepCandidate:
    """Repeated work that may be the training step.

    mode: how it was recognised.
    mark: name of its marks in the profile; None where the script marks its steps itself.
    framework: framework whose profiler is used.
    name: name of the function.
    seconds: duration of a window without steps.
    steps_per_execution: training steps per counted call.
    count: number of steps so far.
    begin_ns: start of the running step; None between steps.
    interrupted: whether the running step contains an epoch's end or a validation.
    trains: whether it was seen to compute gradients.
    predicts: whether it never will.
    sees_gradients: whether a gradient would be seen in these steps. Without one they may be set-up,
        or an evaluation.
    recent_ns: durations of the last steps, ns.
    first_ns: start and end of the first steps, ns by the window's clock.
    """

    mode: str
    mark: str | None = "train"
    framework: str = "tensorflow"
    name: str = ""
    seconds: float | None = None
    steps_per_execution: int = 1
    count: int = 0
    begin_ns: int | None = None
    interrupted: bool = False
    trains: bool = False
    predicts: bool = False
    sees_gradients: bool = False
    recent_ns: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_BEFORE))
    first_ns: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_not_training(self) -> bool:
        """Whether these steps are not of a training, as far as was seen."""
        return self.predicts or (self.sees_gradients and not self.trains)


class StepWindow:
    """Counts steps and opens, marks and closes the window.

    All methods are called on the script's main thread; those that open and close by time also on a
    thread of Outpace. They never run at once: the second one waits, so that the script's end finds
    a saved profile and no running profiler.

    options: options of the capture.
    state: state of the capture.
    chosen_candidate: candidate whose steps are captured.
    top_candidate: candidate with most steps so far.
    first_step: number of the first captured step.
    opened_ns: time when the window was opened.
    seconds: duration of the window.
    cpu_seconds: processor time of the process in it.
    machine_busy: share of the machine's processor time that was used in it.
    calibration: speed of the machine, ns by loop.
    during_ns, after_ns: durations of the steps in the window and after it, ns.
    interrupted: numbers of captured steps that are not whole.
    cycle_overhead: duration of a round in and after a window without steps.
    max_window_s: returns the maximum duration of a window of a candidate's steps, seconds.
    stopping: whether the script is being stopped.
    in_keras_fit: whether Keras is in a phase whose batches will be the steps.
    """

    def __init__(self, options: CaptureOptions, profiling: Profiling, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        """Create a window that is not open; `clock` returns nanoseconds."""
        self.options = options
        self.state = WindowState.WAITING
        self.chosen_candidate: StepCandidate | None = None
        self.top_candidate: StepCandidate | None = None
        self.first_step = 0
        self.opened_ns = 0
        self._cpu_open_s = 0.0
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.machine_busy = 0.0
        self._open_ticks: tuple[int, int] | None = None
        self.calibration: dict[str, int] = {}
        self.during_ns: list[int] = []
        self._end_times_ns: list[int] = []  # ends of captured steps
        # time until which the window waits for a second rare step
        self._wait_deadline_ns: int | None = None
        self._rare_ns = 0
        self.after_ns: list[int] = []
        self.interrupted: list[int] = []
        self.cycle_overhead: StepDurations | None = None
        self.max_window_s: Callable[[StepCandidate], float] = lambda _: math.inf
        self._max_length_s = math.inf
        self._profiling = profiling
        self._clock = clock
        self._end_mark: Callable[[], None] | None = None
        self._settling_left = SETTLING_STEPS
        self.stopping = False
        self._lock = threading.RLock()
        self.in_keras_fit = False
        self._last_begin_ns: int | None = None
        self._last_trained_ns: int | None = None
        # time since which steps that are not of a training are seen
        self._untrained_since_ns: int | None = None
        # such steps were captured, for want of a training, and rejected
        self._has_rejected_untrained = False

    @property
    def is_decided(self) -> bool:
        """Whether the window has been opened, or never will be."""
        return self.state is not WindowState.WAITING

    @property
    def expects_steps(self) -> bool:
        """Whether steps are being counted, or are about to come."""
        return self.in_keras_fit or (self._last_begin_ns is not None and self._clock() - self._last_begin_ns < STEP_EXPIRY_NS)

    @property
    def is_off(self) -> bool:
        """Whether nothing is left to count, so that hooks may skip their work."""
        return self.state is WindowState.OFF

    def has_trained_recently(self) -> bool:
        """Whether a function that computes gradients was called recently: calls of another function
        are then an evaluation, however many.
        """
        return self._last_trained_ns is not None and self._clock() - self._last_trained_ns < STEP_EXPIRY_NS

    def begin(self, step: StepCandidate, may_open: bool = True) -> None:
        """A step begins. Opens the window when this candidate has finished its warm-up and
        `may_open`.
        """
        if self.is_off:
            return
        if step.trains and step is not self.chosen_candidate:
            self.on_training_begin()
        if self.chosen_candidate not in (None, step):
            return
        if step.trains:
            self._last_trained_ns = self._clock()
        if step.is_not_training and self._untrained_since_ns is None:
            self._untrained_since_ns = self._clock()
        may_open = may_open and not (self._has_rejected_untrained and self._may_precede_training(step))
        if self.state is WindowState.WAITING and may_open and self._is_warm(step) and self._try_open(step):
            self.first_step = step.count
        if self.state is WindowState.OPEN and step is self.chosen_candidate and step.mark:
            self._end_mark = self._profiling.begin_mark(step.mark, step.count)
        step.interrupted = False
        step.begin_ns = self._last_begin_ns = self._clock()

    def _is_warm(self, step: StepCandidate) -> bool:
        """Whether a candidate has finished its warm-up, during which the maximum duration of its
        window is determined.
        """
        if step.count < min(DROPPED_STEPS, self.options.warmup):
            return False
        self._max_length_s = self.max_window_s(step)
        return step.count >= self.options.warmup

    def end(self, step: StepCandidate) -> None:
        """A step ended. Closes the window when it is full, and stops the script where the options
        ask for it.
        """
        if self.is_off or self.chosen_candidate not in (None, step):
            return
        now = self._clock()
        duration = None if step.begin_ns is None else now - step.begin_ns
        if step.begin_ns is not None and len(step.first_ns) < MAX_BEFORE and self.state is WindowState.WAITING:
            step.first_ns.append((step.begin_ns, now))
        step.begin_ns = None
        step.count += 1
        if self.top_candidate is None or step.count > self.top_candidate.count:
            self.top_candidate = step
        if self.state is WindowState.WAITING and duration is not None and step.count > DROPPED_STEPS:
            step.recent_ns.append(duration)
        elif self.state is WindowState.OPEN and duration is not None:
            self._end_captured_step(step, now, duration)
        elif self.state is WindowState.AFTER:
            self._end_step_after(duration)

    def abandon(self, step: StepCandidate) -> None:
        """Forget a step that began and will not end, because the loop is over; its mark is ended,
        and it is listed as interrupted.
        """
        if step.begin_ns is not None and self._end_mark is not None and step is self.chosen_candidate:
            self._end_open_mark()
            self.interrupted.append(step.count)
        step.begin_ns = None

    def on_training_begin(self) -> None:
        """A training begins: a window of steps before it that are not of a training is closed and
        rejected.
        """
        chosen = self.chosen_candidate
        if chosen is not None and chosen.is_not_training:
            self.close(_untrained_reason)

    def _may_precede_training(self, step: StepCandidate) -> bool:
        """Whether a candidate is not a training, and one may follow."""
        since_ns = self._untrained_since_ns
        return (
            step.is_not_training
            and since_ns is not None
            and self._clock() - since_ns < UNTRAINED_TIMEOUT_S * 1e9
            and self._profiling.may_train()
        )

    def open_by_time(self, step: StepCandidate, ignore_steps: bool = False) -> bool:
        """Open a window without steps, and return whether it is open; the caller closes it after
        the time is over.

        It opens only if no steps were seen, unless `ignore_steps`.
        """
        return (ignore_steps or self.top_candidate is None) and self._try_open(step)

    def _try_open(self, step: StepCandidate) -> bool:
        """Start the profiler for a candidate; False where the window is not waiting or the profiler
        cannot start.
        """
        with hold_lock(self._lock):
            if self.state is not WindowState.WAITING:
                return False
            # once, before the profiler starts, so that it is no part of a step
            if not self.calibration:
                self.calibration = calibrate()
            if not self._profiling.open(step):
                return False
            self.state, self.chosen_candidate = WindowState.OPEN, step
            self.opened_ns, self._cpu_open_s = self._clock(), time.process_time()
            self._open_ticks = machine_load.read_cpu_ticks()
            return True

    def yield_to_user(self) -> None:
        """Forget an open window, as if it had not been opened, because the script starts a profiler
        itself.
        """
        with hold_lock(self._lock):
            if self.state is WindowState.OPEN:
                self._forget()

    def _forget(self) -> None:
        """Return to the state before the window was opened."""
        self._end_open_mark()
        self.calibration = {}
        self.state, self.chosen_candidate = WindowState.WAITING, None
        self.during_ns.clear()
        self._end_times_ns.clear()
        self._wait_deadline_ns = None
        self.interrupted.clear()

    def close(self, rejection_reason: Callable[[str], str] | None = None, defer_stop: bool = False) -> None:
        """Close an open window now, with what it has; wait where another thread is closing it.

        rejection_reason: gets the path of the profile and returns why it is rejected, or "". After
            a rejection the window is as if it had not been opened.
        defer_stop: `record_overhead` follows, before which the script is not stopped.
        """
        with hold_lock(self._lock):
            if self.state is not WindowState.OPEN:
                return
            self._end_open_mark()
            self.seconds, self.cpu_seconds = (self._clock() - self.opened_ns) / 1e9, time.process_time() - self._cpu_open_s
            self.machine_busy = machine_load.compute_machine_load(self._open_ticks)
            self.state = WindowState.AFTER
            if self._profiling.close(rejection_reason):
                if not defer_stop:
                    self._stop_if_measured()
            elif self.state is WindowState.AFTER:
                self._has_rejected_untrained = self._has_rejected_untrained or rejection_reason is _untrained_reason
                self._forget()

    def record_overhead(self, overhead: StepDurations) -> None:
        """Store the duration of a round in and after a window without steps; the script may be
        stopped then.
        """
        self.cycle_overhead = overhead
        self._profiling.update_record()
        self._stop_if_measured()

    def disable(self) -> None:
        """Stop counting for good."""
        self.state = WindowState.OFF

    def _end_captured_step(self, step: StepCandidate, now: int, duration: int) -> None:
        """Count a captured step, and close the window when it is full."""
        self._end_open_mark()
        self.during_ns.append(duration)
        self._end_times_ns.append(now)
        if step.interrupted:
            self.interrupted.append(step.count - 1)
        options = self.options
        is_long_enough = now - self.opened_ns >= options.lasting * 1e9 or len(self.during_ns) >= MAX_STEPS
        is_long_enough = is_long_enough and not self._waits_for_rare_step(now)
        full = options.steps is not None and len(self.during_ns) >= options.steps and is_long_enough
        if full or self._has_max_events(now) or (options.seconds is not None and now - self.opened_ns >= options.seconds * 1e9):
            self.close(_untrained_reason if self._may_precede_training(step) else None)

    def _has_max_events(self, now: int) -> bool:
        """Whether the window has lasted as long as it may, because stopping the profiler takes time
        for each event. Only where the user gave no number of steps.
        """
        if not self.options.lasting or len(self.during_ns) < MIN_STEPS or now - self.opened_ns < self._max_length_s * 1e9:
            return False
        self._profiling.print_message(
            f"the capture ends after {format_count(len(self.during_ns), 'step')}: they make very many events"
        )
        return True

    def _waits_for_rare_step(self, now: int) -> bool:
        """Whether the window stays open for a second rare step, which came once and took a large
        part of it (an evaluation, a checkpoint): its frequency is part of a step's cost. Only where
        the user gave no number of steps.
        """
        if not self.options.lasting or len(self.during_ns) >= MAX_STEPS:
            return False
        if self._wait_deadline_ns is None:
            cycles, lasted_ns = sorted(end - start for start, end in pairwise(self._end_times_ns)), now - self.opened_ns
            if len(cycles) < 2:
                return False
            rare_ns = cycles[-1]
            if rare_ns < max(RARE_FACTOR * median(cycles), RARE_SHARE * lasted_ns, 2 * cycles[-2]):
                return False
            longest_ns = min(MAX_WAIT_FACTOR * lasted_ns, self._max_length_s * 1e9 - lasted_ns)
            if longest_ns <= 0:
                return False
            self._rare_ns, self._wait_deadline_ns = rare_ns, now + round(longest_ns)
            text = f"{rare_ns / 1e9:.2g} s of {lasted_ns / 1e9:.2g} s"
            self._profiling.print_message(
                f"one step took {text}: the capture goes on until another one does, for {longest_ns / 1e9:.2g} s at most"
            )
            return True
        return now - self._end_times_ns[-2] < self._rare_ns / 2 and now < self._wait_deadline_ns

    def _end_step_after(self, duration: int | None) -> None:
        """Count a step after the window."""
        if self._settling_left > 0:
            self._settling_left -= 1
        elif duration is not None:
            self.after_ns.append(duration)
        self._stop_if_measured()

    def _stop_if_measured(self) -> None:
        """Stop the script, or the counting, when enough steps were measured after the window."""
        if not self.options.stop:
            if len(self.after_ns) >= MAX_AFTER:
                self.disable()
        elif len(self.after_ns) >= self.options.after or not self.during_ns:
            self.stopping = True
            self.disable()
            self._profiling.stop_script()

    def _end_open_mark(self) -> None:
        """End the open mark, if there is one."""
        if self._end_mark is not None:
            self._end_mark()
            self._end_mark = None


def _untrained_reason(_: str) -> str:
    """Return why a window of steps that are not of a training is rejected."""
    return "it computes no gradients, and the program may train yet"


def format_candidate(step: StepCandidate) -> str:
    """Return a candidate in words, for messages: `keras fit`, `custom loop (train_step)`."""
    return f"{step.mode} ({step.name})" if step.name else step.mode

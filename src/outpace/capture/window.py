"""The state of one capture: which repeated thing is the step, when the profiler opens and closes,
what was timed.

Knows no framework. Sources (Keras batches, the script's own marks, repeated `tf.function` calls,
iterator reads) each feed their own `StepCandidate`; the first one to finish the warm-up becomes the
step, and from then on the others are ignored.
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

RARE_FACTOR = 3.0  # times the median step: what takes so long, and came once, is waited for a second time
RARE_SHARE = 0.15  # where it held so much of the window's time
MAX_WAIT_FACTOR = 10.0  # times as long as the window had lasted by then
MIN_STEPS = 3  # of a window that ends before it is full
MAX_BEFORE = 50  # kept warm-up durations
DROPPED_STEPS = 2  # the first steps trace and compile: no measure of the steady state
SETTLING_STEPS = 2  # steps after the window that still eat what the pipeline buffered while the profile was being saved
MAX_AFTER = 200  # a script that trains on needs no more samples
STEP_EXPIRY_NS = 30 * 10**9  # after that time without a step, what was counted before is no longer the training


class WindowState(Enum):
    """Where a capture stands."""

    WAITING = "waiting"
    OPEN = "open"
    AFTER = "after"
    OFF = "off"


class Profiling(Protocol):
    """What the window needs of a profiler; `session.Session` is the real one."""

    def open(self, candidate: StepCandidate | None) -> bool:
        """Begin to record the steps of a candidate; False when that is not possible."""

    def begin_mark(self, name: str, number: int) -> Callable[[], None]:
        """Begin a step mark; the returned function ends it."""

    def close(self, rejection_reason: Callable[[str], str] | None) -> bool:
        """End recording and save, unless `rejection_reason` says why the profile at a path is not
        kept; False where it does.
        """

    def update_record(self) -> None:
        """Write into the record what was measured since the profile was saved."""

    def print_message(self, text: str) -> None:
        """Tell the user something."""

    def may_train(self) -> bool:
        """Whether a program that only predicts may train later."""

    def stop_script(self) -> None:
        """End the script: its capture is over. Comes back where the script is at its
        end already.
        """


@dataclass(eq=False)
class StepCandidate:
    """Something that repeats and may be the training step.

    `mode` says how it was recognised, `begin_mark` is the name of its marks (None: the script marks
    its steps itself), and `framework` whose profiler to use. `seconds` is how long a window without
    steps lasts. `trains`: it was seen to compute gradients; `predicts`: it never will.
    `sees_gradients`: where these steps come from, a gradient would be seen; without one they may be
    set-up, or an evaluation.
    """

    mode: str
    mark: str | None = "train"
    framework: str = "tensorflow"
    name: str = ""
    seconds: float | None = None  # of a window without steps
    steps_per_execution: int = 1
    count: int = 0
    begin_ns: int | None = None
    interrupted: bool = False
    trains: bool = False
    predicts: bool = False
    sees_gradients: bool = False
    recent_ns: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_BEFORE))

    @property
    def is_not_training(self) -> bool:
        """Whether these steps are none of a training, as far as was seen."""
        return self.predicts or (self.sees_gradients and not self.trains)


class StepWindow:
    """Counts steps and opens, marks and closes the window.

    All methods are called on the script's main thread; those that open and close by time also on a
    thread of ours, and never both at once: whoever comes second waits, so that the script's end
    finds a profile that is saved and no profiler at work.
    """

    def __init__(self, options: CaptureOptions, profiling: Profiling, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        """An unopened window; `clock` answers nanoseconds."""
        self.options = options
        self.state = WindowState.WAITING
        self.chosen_candidate: StepCandidate | None = None
        self.top_candidate: StepCandidate | None = None
        self.first_step = 0
        self.opened_ns = 0
        self._cpu_opened = 0.0
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.machine_busy = 0.0
        self._load_opened: tuple[int, int] | None = None
        self.calibration: dict[str, int] = {}
        self.during_ns: list[int] = []
        self._ends: list[int] = []  # of captured steps
        self._waits_until: int | None = None  # for something that comes seldom
        self._seldom = 0
        self.after_ns: list[int] = []
        self.interrupted: list[int] = []
        self.cycle_overhead: StepDurations | None = None  # of a window without steps
        self.max_window_s: Callable[[StepCandidate], float] = lambda _: math.inf  # seconds that a window of steps may last
        self._longest_s = math.inf
        self._profiling = profiling
        self._clock = clock
        self._end_mark: Callable[[], None] | None = None
        self._settle = SETTLING_STEPS
        self.stopping = False  # the script was told to stop
        self._turn = threading.RLock()
        self.in_keras_fit = False  # Keras is at it, and its batches will be the steps
        self._last_begin: int | None = None
        self._last_trained: int | None = None
        self._untrained: int | None = None  # since when something comes round that is no training
        self._has_untrained = False  # that was captured, for want of a training

    @property
    def is_decided(self) -> bool:
        """The window has been opened, or never will be."""
        return self.state is not WindowState.WAITING

    @property
    def expects_steps(self) -> bool:
        """Steps are being counted, or are about to come."""
        return self.in_keras_fit or (self._last_begin is not None and self._clock() - self._last_begin < STEP_EXPIRY_NS)

    @property
    def is_off(self) -> bool:
        """Nothing is left to count: hooks may skip their work."""
        return self.state is WindowState.OFF

    def has_trained_recently(self) -> bool:
        """A function that computes gradients was called not long ago: another one's calls are an
        evaluation, however many.
        """
        return self._last_trained is not None and self._clock() - self._last_trained < STEP_EXPIRY_NS

    def begin(self, step: StepCandidate, may_open: bool = True) -> None:
        """A step begins. Opens the window when this candidate is through its warm-up and
        `may_open`.
        """
        if self.is_off:
            return
        if step.trains and step is not self.chosen_candidate:
            self.on_training_begin()
        if self.chosen_candidate not in (None, step):
            return
        if step.trains:
            self._last_trained = self._clock()
        if step.is_not_training and self._untrained is None:
            self._untrained = self._clock()
        may_open = may_open and not (self._has_untrained and self._too_early(step))
        if self.state is WindowState.WAITING and may_open and self._is_warm(step) and self._open(step):
            self.first_step = step.count
        if self.state is WindowState.OPEN and step is self.chosen_candidate and step.mark:
            self._end_mark = self._profiling.begin_mark(step.mark, step.count)
        step.interrupted = False
        step.begin_ns = self._last_begin = self._clock()

    def _is_warm(self, step: StepCandidate) -> bool:
        """Whether a candidate is through its warm-up, during which may be found out how long its
        window may last.
        """
        if step.count < min(DROPPED_STEPS, self.options.warmup):
            return False
        self._longest_s = self.max_window_s(step)
        return step.count >= self.options.warmup

    def end(self, step: StepCandidate) -> None:
        """A step ended. Closes the window when it is full, and stops the script where that was
        asked for.
        """
        if self.is_off or self.chosen_candidate not in (None, step):
            return
        now = self._clock()
        duration = None if step.begin_ns is None else now - step.begin_ns
        step.begin_ns = None
        step.count += 1
        if self.top_candidate is None or step.count > self.top_candidate.count:
            self.top_candidate = step
        if self.state is WindowState.WAITING and duration is not None and step.count > DROPPED_STEPS:
            step.recent_ns.append(duration)
        elif self.state is WindowState.OPEN and duration is not None:
            self._end_captured(step, now, duration)
        elif self.state is WindowState.AFTER:
            self._end_after(duration)

    def abandon(self, step: StepCandidate) -> None:
        """A step that began will not end (the loop is over): its mark is closed and noted as no
        whole step.
        """
        if step.begin_ns is not None and self._end_mark is not None and step is self.chosen_candidate:
            self._finish_mark()
            self.interrupted.append(step.count)
        step.begin_ns = None

    def on_training_begin(self) -> None:
        """A training begins: what is none, and came before it, is not what is to be captured."""
        chosen = self.chosen_candidate
        if chosen is not None and chosen.is_not_training:
            self.close(_for_want)

    def _too_early(self, step: StepCandidate) -> bool:
        """Whether a candidate is no training, and one may follow."""
        since = self._untrained
        return (
            step.is_not_training
            and since is not None
            and self._clock() - since < UNTRAINED_TIMEOUT_S * 1e9
            and self._profiling.may_train()
        )

    def open_by_time(self, step: StepCandidate, ignore_steps: bool = False) -> bool:
        """Open a window without steps, if there were none or in spite of those; the caller closes
        it after the time is over.
        """
        return (ignore_steps or self.top_candidate is None) and self._open(step)

    def _open(self, step: StepCandidate) -> bool:
        with hold_lock(self._turn):
            if self.state is not WindowState.WAITING:
                return False
            if not self.calibration:  # once, before the profiler opens: what it does is no part of a step
                self.calibration = calibrate()
            if not self._profiling.open(step):
                return False
            self.state, self.chosen_candidate = WindowState.OPEN, step
            self.opened_ns, self._cpu_opened = self._clock(), time.process_time()
            self._load_opened = machine_load.read_cpu_ticks()
            return True

    def yield_to_user(self) -> None:
        """The script starts a profiler itself: forget an open window, as if it had not been opened
        yet.
        """
        with hold_lock(self._turn):
            if self.state is WindowState.OPEN:
                self._forget()

    def _forget(self) -> None:
        self._finish_mark()
        self.calibration = {}
        self.state, self.chosen_candidate = WindowState.WAITING, None
        self.during_ns.clear()
        self._ends.clear()
        self._waits_until = None
        self.interrupted.clear()

    def close(self, rejection_reason: Callable[[str], str] | None = None, defer_stop: bool = False) -> None:
        """Close an open window now, with what it has; waits where another thread is doing it. Where
        `rejection_reason` says why its profile (a path) is not kept, it is as if it had not been
        opened. `defer_stop`: `record_overhead` follows, before which nothing is stopped.
        """
        with hold_lock(self._turn):
            if self.state is not WindowState.OPEN:
                return
            self._finish_mark()
            self.seconds, self.cpu_seconds = (self._clock() - self.opened_ns) / 1e9, time.process_time() - self._cpu_opened
            self.machine_busy = machine_load.compute_machine_load(self._load_opened)
            self.state = WindowState.AFTER
            if self._profiling.close(rejection_reason):
                if not defer_stop:
                    self._maybe_stop()
            elif self.state is WindowState.AFTER:
                self._has_untrained = self._has_untrained or rejection_reason is _for_want
                self._forget()

    def record_overhead(self, overhead: StepDurations) -> None:
        """What comes round was timed inside and behind a window without steps: the script need not
        run any longer.
        """
        self.cycle_overhead = overhead
        self._profiling.update_record()
        self._maybe_stop()

    def disable(self) -> None:
        """Stop counting for good."""
        self.state = WindowState.OFF

    def _end_captured(self, step: StepCandidate, now: int, duration: int) -> None:
        self._finish_mark()
        self.during_ns.append(duration)
        self._ends.append(now)
        if step.interrupted:
            self.interrupted.append(step.count - 1)
        options = self.options
        lasted = now - self.opened_ns >= options.lasting * 1e9 or len(self.during_ns) >= MAX_STEPS
        lasted = lasted and not self._awaits_seldom(now)
        full = options.steps is not None and len(self.during_ns) >= options.steps and lasted
        if full or self._holds_too_much(now) or (options.seconds is not None and now - self.opened_ns >= options.seconds * 1e9):
            self.close(_for_want if self._too_early(step) else None)

    def _holds_too_much(self, now: int) -> bool:
        """Whether the window has lasted as long as it may: ending it takes time for each event.
        Only where nothing says how many steps are wanted.
        """
        if not self.options.lasting or len(self.during_ns) < MIN_STEPS or now - self.opened_ns < self._longest_s * 1e9:
            return False
        self._profiling.print_message(
            f"the capture ends after {format_count(len(self.during_ns), 'step')}: they make very many events"
        )
        return True

    def _awaits_seldom(self, now: int) -> bool:
        """Whether the window stays open for a second one of what came once and took much of it (an
        evaluation, a checkpoint): how often it comes is part of what a step costs. Only where
        nothing says how many steps are wanted.
        """
        if not self.options.lasting or len(self.during_ns) >= MAX_STEPS:
            return False
        if self._waits_until is None:
            cycles, lasted = sorted(later - sooner for sooner, later in pairwise(self._ends)), now - self.opened_ns
            if len(cycles) < 2:
                return False
            seldom = cycles[-1]
            if seldom < max(RARE_FACTOR * median(cycles), RARE_SHARE * lasted, 2 * cycles[-2]):
                return False
            longest = min(MAX_WAIT_FACTOR * lasted, self._longest_s * 1e9 - lasted)
            if longest <= 0:
                return False
            self._seldom, self._waits_until = seldom, now + round(longest)
            took = f"{seldom / 1e9:.2g} s of {lasted / 1e9:.2g} s"
            self._profiling.print_message(
                f"one step took {took}: the capture goes on until another one does, for {longest / 1e9:.2g} s at most"
            )
            return True
        return now - self._ends[-2] < self._seldom / 2 and now < self._waits_until

    def _end_after(self, duration: int | None) -> None:
        if self._settle > 0:
            self._settle -= 1
        elif duration is not None:
            self.after_ns.append(duration)
        self._maybe_stop()

    def _maybe_stop(self) -> None:
        if not self.options.stop:
            if len(self.after_ns) >= MAX_AFTER:
                self.disable()
        elif len(self.after_ns) >= self.options.after or not self.during_ns:
            self.stopping = True
            self.disable()
            self._profiling.stop_script()

    def _finish_mark(self) -> None:
        if self._end_mark is not None:
            self._end_mark()
            self._end_mark = None


def _for_want(_: str) -> str:
    """Why what is no training is not kept."""
    return "it computes no gradients, and the program may train yet"


def format_candidate(step: StepCandidate) -> str:
    """A candidate in words, for messages: `keras fit`, `custom loop (train_step)`."""
    return f"{step.mode} ({step.name})" if step.name else step.mode

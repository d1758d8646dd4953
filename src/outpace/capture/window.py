"""The state of one capture: which repeated thing is the step, when the profiler opens and closes, what was timed.

Knows no framework. Sources (Keras batches, the script's own marks, repeated `tf.function` calls, iterator reads) each feed
their own `Candidate`; the first one to finish the warm-up becomes the step, and from then on the others are ignored.
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
from outpace.capture import load
from outpace.capture.calibration import calibrate
from outpace.capture.main_thread import turn
from outpace.capture.options import MOST_STEPS, UNTRAINED_S, CaptureOptions
from outpace.model.units import counted
from outpace.store.record import Overhead

SELDOM = 3.0  # times the median step: what takes so long, and came once, is waited for a second time
SELDOM_SHARE = 0.15  # where it held so much of the window's time
LONGEST_WAIT = 10.0  # times as long as the window had lasted by then
LEAST_STEPS = 3  # of a window that ends before it is full
MOST_BEFORE = 50  # kept warm-up durations
FIRST_DROPPED = 2  # the first steps trace and compile: no measure of the steady state
SETTLE = 2  # steps after the window that still eat what the pipeline buffered while the profile was being saved
MOST_AFTER = 200  # a script that trains on needs no more samples
LAPSED_NS = 30 * 10**9  # after that time without a step, what was counted before is no longer the training


class Phase(Enum):
    """Where a capture stands."""

    WAITING = "waiting"
    OPEN = "open"
    AFTER = "after"
    OFF = "off"


class Profiling(Protocol):
    """What the window needs of a profiler; `session.Session` is the real one."""

    def open(self, candidate: Candidate | None) -> bool:
        """Begin to record the steps of a candidate; False when that is not possible."""

    def mark(self, name: str, number: int) -> Callable[[], None]:
        """Begin a step mark; the returned function ends it."""

    def close(self, refused: Callable[[str], str] | None) -> bool:
        """End recording and save, unless `refused` says why the profile at a path is not kept; False where it does."""

    def complete(self) -> None:
        """Write into the record what was measured since the profile was saved."""

    def tell(self, text: str) -> None:
        """Tell the user something."""

    def may_train(self) -> bool:
        """Whether a program that only predicts may train later."""

    def stop(self) -> None:
        """End the script: its capture is over. Comes back where the script is at its end already."""


@dataclass(eq=False)
class Candidate:
    """Something that repeats and may be the training step.

    `mode` says how it was recognised, `mark` is the name of its marks (None: the script marks its steps itself), and
    `framework` whose profiler to use. `seconds` is how long a window without steps lasts. `trains`: it was seen to compute gradients;
    `predicts`: it never will. `sees_gradients`: where these steps come from, a gradient would be seen; without one they may be set-up, or an
    evaluation.
    """

    mode: str
    mark: str | None = "train"
    framework: str = "tensorflow"
    what: str = ""
    seconds: float | None = None  # of a window without steps
    steps_per_execution: int = 1
    count: int = 0
    began: int | None = None
    interrupted: bool = False
    trains: bool = False
    predicts: bool = False
    sees_gradients: bool = False
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=MOST_BEFORE))

    @property
    def is_no_training(self) -> bool:
        """Whether these steps are none of a training, as far as was seen."""
        return self.predicts or (self.sees_gradients and not self.trains)


class StepWindow:
    """Counts steps and opens, marks and closes the window.

    All methods are called on the script's main thread; those that open and close by time also on a thread of ours, and never both at once:
    whoever comes second waits, so that the script's end finds a profile that is saved and no profiler at work.
    """

    def __init__(self, options: CaptureOptions, profiling: Profiling, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        """An unopened window; `clock` answers nanoseconds."""
        self.options = options
        self.phase = Phase.WAITING
        self.chosen: Candidate | None = None
        self.most: Candidate | None = None
        self.first_step = 0
        self.opened_ns = 0
        self._cpu_opened = 0.0
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.machine_busy = 0.0
        self._load_opened: tuple[int, int] | None = None
        self.calibration: dict[str, int] = {}
        self.during: list[int] = []
        self._ends: list[int] = []  # of captured steps
        self._waits_until: int | None = None  # for something that comes seldom
        self._seldom = 0
        self.after: list[int] = []
        self.interrupted: list[int] = []
        self.cycles: Overhead | None = None  # of a window without steps
        self.longest: Callable[[Candidate], float] = lambda _: math.inf  # seconds that a window of steps may last
        self._longest_s = math.inf
        self._profiling = profiling
        self._clock = clock
        self._end_mark: Callable[[], None] | None = None
        self._settle = SETTLE
        self.stopping = False  # the script was told to stop
        self._turn = threading.RLock()
        self.fitting = False  # Keras is at it, and its batches will be the steps
        self._last_begin: int | None = None
        self._last_trained: int | None = None
        self._untrained: int | None = None  # since when something comes round that is no training
        self._has_untrained = False  # that was captured, for want of a training

    @property
    def taken(self) -> bool:
        """The window has been opened, or never will be."""
        return self.phase is not Phase.WAITING

    @property
    def expecting(self) -> bool:
        """Steps are being counted, or are about to come."""
        return self.fitting or (self._last_begin is not None and self._clock() - self._last_begin < LAPSED_NS)

    @property
    def idle(self) -> bool:
        """Nothing is left to count: hooks may skip their work."""
        return self.phase is Phase.OFF

    def trained(self) -> bool:
        """A function that computes gradients was called not long ago: another one's calls are an evaluation, however many."""
        return self._last_trained is not None and self._clock() - self._last_trained < LAPSED_NS

    def begin(self, step: Candidate, may_open: bool = True) -> None:
        """A step begins. Opens the window when this candidate is through its warm-up and `may_open`."""
        if self.idle:
            return
        if step.trains and step is not self.chosen:
            self.training_begins()
        if self.chosen not in (None, step):
            return
        if step.trains:
            self._last_trained = self._clock()
        if step.is_no_training and self._untrained is None:
            self._untrained = self._clock()
        may_open = may_open and not (self._has_untrained and self._too_early(step))
        if self.phase is Phase.WAITING and may_open and self._is_warm(step) and self._open(step):
            self.first_step = step.count
        if self.phase is Phase.OPEN and step is self.chosen and step.mark:
            self._end_mark = self._profiling.mark(step.mark, step.count)
        step.interrupted = False
        step.began = self._last_begin = self._clock()

    def _is_warm(self, step: Candidate) -> bool:
        """Whether a candidate is through its warm-up, during which may be found out how long its window may last."""
        if step.count < min(FIRST_DROPPED, self.options.warmup):
            return False
        self._longest_s = self.longest(step)
        return step.count >= self.options.warmup

    def end(self, step: Candidate) -> None:
        """A step ended. Closes the window when it is full, and stops the script where that was asked for."""
        if self.idle or self.chosen not in (None, step):
            return
        now = self._clock()
        duration = None if step.began is None else now - step.began
        step.began = None
        step.count += 1
        if self.most is None or step.count > self.most.count:
            self.most = step
        if self.phase is Phase.WAITING and duration is not None and step.count > FIRST_DROPPED:
            step.recent.append(duration)
        elif self.phase is Phase.OPEN and duration is not None:
            self._end_captured(step, now, duration)
        elif self.phase is Phase.AFTER:
            self._end_after(duration)

    def abandon(self, step: Candidate) -> None:
        """A step that began will not end (the loop is over): its mark is closed and noted as no whole step."""
        if step.began is not None and self._end_mark is not None and step is self.chosen:
            self._finish_mark()
            self.interrupted.append(step.count)
        step.began = None

    def training_begins(self) -> None:
        """A training begins: what is none, and came before it, is not what is to be captured."""
        chosen = self.chosen
        if chosen is not None and chosen.is_no_training:
            self.close(_for_want)

    def _too_early(self, step: Candidate) -> bool:
        """Whether a candidate is no training, and one may follow."""
        since = self._untrained
        return (
            step.is_no_training
            and since is not None
            and self._clock() - since < UNTRAINED_S * 1e9
            and self._profiling.may_train()
        )

    def open_for_time(self, step: Candidate, although_steps: bool = False) -> bool:
        """Open a window without steps, if there were none or in spite of those; the caller closes it after the time is over."""
        return (although_steps or self.most is None) and self._open(step)

    def _open(self, step: Candidate) -> bool:
        with turn(self._turn):
            if self.phase is not Phase.WAITING:
                return False
            if not self.calibration:  # once, before the profiler opens: what it does is no part of a step
                self.calibration = calibrate()
            if not self._profiling.open(step):
                return False
            self.phase, self.chosen = Phase.OPEN, step
            self.opened_ns, self._cpu_opened = self._clock(), time.process_time()
            self._load_opened = load.ticks()
            return True

    def yield_to_user(self) -> None:
        """The script starts a profiler itself: forget an open window, as if it had not been opened yet."""
        with turn(self._turn):
            if self.phase is Phase.OPEN:
                self._forget()

    def _forget(self) -> None:
        self._finish_mark()
        self.calibration = {}
        self.phase, self.chosen = Phase.WAITING, None
        self.during.clear()
        self._ends.clear()
        self._waits_until = None
        self.interrupted.clear()

    def close(self, refused: Callable[[str], str] | None = None, more: bool = False) -> None:
        """Close an open window now, with what it has; waits where another thread is doing it. Where `refused` says why its profile (a path) is
        not kept, it is as if it had not been opened. `more`: `settle` follows, before which nothing is stopped."""
        with turn(self._turn):
            if self.phase is not Phase.OPEN:
                return
            self._finish_mark()
            self.seconds, self.cpu_seconds = (self._clock() - self.opened_ns) / 1e9, time.process_time() - self._cpu_opened
            self.machine_busy = load.busy(self._load_opened)
            self.phase = Phase.AFTER
            if self._profiling.close(refused):
                if not more:
                    self._maybe_stop()
            elif self.phase is Phase.AFTER:
                self._has_untrained = self._has_untrained or refused is _for_want
                self._forget()

    def settle(self, cycles: Overhead) -> None:
        """What comes round was timed inside and behind a window without steps: the script need not run any longer."""
        self.cycles = cycles
        self._profiling.complete()
        self._maybe_stop()

    def disable(self) -> None:
        """Stop counting for good."""
        self.phase = Phase.OFF

    def _end_captured(self, step: Candidate, now: int, duration: int) -> None:
        self._finish_mark()
        self.during.append(duration)
        self._ends.append(now)
        if step.interrupted:
            self.interrupted.append(step.count - 1)
        options = self.options
        lasted = now - self.opened_ns >= options.lasting * 1e9 or len(self.during) >= MOST_STEPS
        lasted = lasted and not self._awaits_seldom(now)
        full = options.steps is not None and len(self.during) >= options.steps and lasted
        if full or self._holds_too_much(now) or (options.seconds is not None and now - self.opened_ns >= options.seconds * 1e9):
            self.close(_for_want if self._too_early(step) else None)

    def _holds_too_much(self, now: int) -> bool:
        """Whether the window has lasted as long as it may: ending it takes time for each event. Only where nothing says how many steps are
        wanted."""
        if not self.options.lasting or len(self.during) < LEAST_STEPS or now - self.opened_ns < self._longest_s * 1e9:
            return False
        self._profiling.tell(f"the capture ends after {counted(len(self.during), 'step')}: they make very many events")
        return True

    def _awaits_seldom(self, now: int) -> bool:
        """Whether the window stays open for a second one of what came once and took much of it (an evaluation, a checkpoint): how often it
        comes is part of what a step costs. Only where nothing says how many steps are wanted."""
        if not self.options.lasting or len(self.during) >= MOST_STEPS:
            return False
        if self._waits_until is None:
            cycles, lasted = sorted(later - sooner for sooner, later in pairwise(self._ends)), now - self.opened_ns
            if len(cycles) < 2:
                return False
            seldom = cycles[-1]
            if seldom < max(SELDOM * median(cycles), SELDOM_SHARE * lasted, 2 * cycles[-2]):
                return False
            longest = min(LONGEST_WAIT * lasted, self._longest_s * 1e9 - lasted)
            if longest <= 0:
                return False
            self._seldom, self._waits_until = seldom, now + round(longest)
            took = f"{seldom / 1e9:.2g} s of {lasted / 1e9:.2g} s"
            self._profiling.tell(
                f"one step took {took}: the capture goes on until another one does, for {longest / 1e9:.2g} s at most"
            )
            return True
        return now - self._ends[-2] < self._seldom / 2 and now < self._waits_until

    def _end_after(self, duration: int | None) -> None:
        if self._settle > 0:
            self._settle -= 1
        elif duration is not None:
            self.after.append(duration)
        self._maybe_stop()

    def _maybe_stop(self) -> None:
        if not self.options.stop:
            if len(self.after) >= MOST_AFTER:
                self.disable()
        elif len(self.after) >= self.options.after or not self.during:
            self.stopping = True
            self.disable()
            self._profiling.stop()

    def _finish_mark(self) -> None:
        if self._end_mark is not None:
            self._end_mark()
            self._end_mark = None


def _for_want(_: str) -> str:
    """Why what is no training is not kept."""
    return "it computes no gradients, and the program may train yet"


def describe(step: Candidate) -> str:
    """A candidate in words, for messages: `keras fit`, `custom loop (train_step)`."""
    return f"{step.mode} ({step.what})" if step.what else step.mode

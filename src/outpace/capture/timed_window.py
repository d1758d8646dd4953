"""A window by time alone, for scripts whose steps cannot be seen (JAX loops without marks, eager
loops over arrays).

With `seconds` among the options it opens `delay` seconds after the framework's import. Without, it
opens by itself when training runs and no source of steps has seen any of it: in TensorFlow when
gradients are taken again and again, in JAX when looks say that something comes round (`looks.py`).
One in which nothing came round three whole times is thrown away, and another one opens. The
analysis then infers the steps from what was recorded.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time

from outpace.capture.compilations import CompilationRecorder
from outpace.capture.faults import count_fault
from outpace.capture.frameworks import framework_in_use
from outpace.capture.host_snapshots import (
    FIRST_DURATION_S,
    MIN_ROUNDS,
    AnalysisClient,
    HostSnapshots,
    TrainingDetector,
    main_thread_line,
    mentions_training,
)
from outpace.capture.main_thread import wait_and_serve
from outpace.capture.messages import print_message
from outpace.capture.options import DEFAULT_DURATION_S, Repetition
from outpace.capture.profilers import JaxProfiler, ProfilerBusy
from outpace.capture.session import CaptureSession
from outpace.capture.window import RARE_SHARE, StepCandidate
from outpace.frameworks.jax import BACKENDS
from outpace.store.record import StepDurations

DEFAULT_LENGTH_S = 3.0  # of a window that opens by itself, of something whose rounds nobody knows
MAX_ROUNDS = 8  # of what is known to come round, for which a window lasts longer than `DEFAULT_DURATION_S`
MAX_ROUNDS_S = 60.0
MAX_EVENTS = 500_000  # of a window, of which three whole rounds may hold more: ending it takes 3 to 7 us for each
MIN_STEADY_S = 2.0  # of it at least after the last compilation
MAX_LENGTH_S = 14.0  # it lasts: a script may compile in every step
EAGER_DELAY_S = 1.5  # after the first sign of an eager loop that trains
MAX_COMPILATION_S = 60.0  # of which nothing is heard, until it counts as none
MIN_TAPES = 5  # gradient tapes outside any step that say: an eager loop trains here
SNAPSHOT_INTERVAL_S = 1.0
RARE_GROWTH = 4  # as long as the window before lasts one that is to hold a second one of what came once
MAX_TRIES = 3  # windows, of which the last one is kept whatever it holds
MESSAGE_TIMES_S = (5.0, 15.0, 30.0, 60.0)  # that the training is waited for, when that is told; then every minute
_POLL_S = 0.1
_END_S = 10.0  # for a profiler that is being started or stopped when the script ends


class TimedWindow:
    """Opens the window by time, if no step was seen by then; closes it, and stops the script when
    that is asked for.
    """

    def __init__(self, session: CaptureSession, compilations: CompilationRecorder, request_folder: str = "") -> None:
        """A window for this session, not waiting yet. `request_folder`: the folder in which
        profiles are judged; "" where nobody does.
        """
        self._session = session
        self._compiles = compilations
        self._over = threading.Event()
        self._questions = AnalysisClient(request_folder, self._over)
        self._looks = HostSnapshots(self._questions, request_folder)
        session.pause_snapshots = self._looks.pause
        session.window.max_window_s = self.max_window_s
        self._thread: threading.Thread | None = None
        self._imported = 0.0  # when the last framework was, monotonic seconds: TensorFlow imports JAX before it is there itself
        self._training: float | None = None  # when a sign of it was first seen, monotonic seconds
        self._waited: float | None = None  # since when it is waited for
        self._told = 0
        self._looked = False  # a look said that the training runs
        self._during = Repetition()  # what came round inside the window
        self._tries, self._last = 0, False  # windows that were judged; whether the one that is open is the last try
        self._longer = 0.0  # what a window lasts at least that opens after one too short, seconds
        self._counts_events = False  # of steps that are about to be captured
        self._within = math.inf  # seconds that a window of them may last
        self.tape_count = 0  # gradient tapes that were entered outside any step
        self.detector = TrainingDetector(mentions_training)

    def start(self) -> None:
        """A framework was imported: start waiting; where we wait already, the delay counts from
        now.
        """
        self._imported = time.monotonic()
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._wait, name="outpace-window", daemon=True)
        self._thread.start()

    def max_window_s(self, step: StepCandidate) -> float:
        """How long a window of these steps may last, so that it does not hold too many events,
        seconds, by the looks at them so far.
        """
        self._counts_events = step.framework == "jax" and self._session.options.lasting > 0
        return self._within

    def end(self) -> None:
        """The script has ended: wait no longer. A thread that the interpreter ends inside the
        profiler takes the process with it, so that it is waited for.
        """
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            wait_and_serve(self._goes_on, _END_S)

    def describe_activity(self) -> str:
        """What ran while the training was waited for, as a sentence; "" where nothing did."""
        seen = self.detector.describe()
        return f" What was seen: {seen}" if seen and not self._session.window.is_decided else ""

    def _goes_on(self, seconds: float) -> bool:
        """Wait for our thread, so many seconds at most."""
        assert self._thread is not None
        self._thread.join(seconds)
        return self._thread.is_alive()

    def _wait(self) -> None:
        try:
            self._await()
        except Exception as error:
            count_fault(error)
            print_message(f"the capture by time ended: {type(error).__name__}: {error}")

    def _await(self) -> None:
        options = self._session.options
        if options.seconds is not None:
            while (left := self._imported + options.delay - time.monotonic()) > 0 or not self._reachable():
                if self._over.wait(max(left, _POLL_S)):
                    return
        while not self._over.is_set() and not self._session.window.is_decided:
            seconds = self._length() if options.seconds is None else options.seconds
            if seconds is None:
                self._over.wait(_POLL_S)
            elif not self._capture(seconds):  # steps were seen, or another profiler runs
                self._over.wait(SNAPSHOT_INTERVAL_S)

    def _reachable(self) -> bool:
        """Whether the framework that would be captured is there: TensorFlow imports JAX, and may
        take longer than the delay from then on.
        """
        return (framework_in_use() or "tensorflow") in self._session.profilers

    def _length(self) -> float | None:
        """How long a window without steps is to last that opens now, seconds; None where none is to
        open.
        """
        if self._session.window.expects_steps or not self._trains():
            self._training = self._waited = None
            if self._counts_events:
                self._within = min(self._within, self._count_events())
            return None
        if framework_in_use() == "jax":
            return self._look()
        self._training = self._training or time.monotonic()
        return DEFAULT_LENGTH_S if time.monotonic() - self._training >= EAGER_DELAY_S else None

    def _trains(self) -> bool:
        """A sign of training: JAX has touched a device, or gradients are taken again and again."""
        if framework_in_use() == "jax":
            return bool(BACKENDS.value)
        return self.tape_count >= MIN_TAPES

    def _look(self) -> float | None:
        """Look at what JAX runs; how long a window is to last where that is the training, or where
        this JAX allows no looks.
        """
        profiler = self._session.profilers.get("jax")
        self._waiting()
        if not isinstance(profiler, JaxProfiler) or self._compiling() or self._over.wait(SNAPSHOT_INTERVAL_S):
            return None
        try:
            found = self._looks.take(profiler, self.detector.next_duration_s, self._over)
        except ProfilerBusy:
            return None
        except NotImplementedError:  # then a window is what tells
            return DEFAULT_LENGTH_S
        if found is None or not self.detector.add(found, time.monotonic()) or self._session.window.expects_steps:
            return None
        self._looked = True
        seconds = min(max(DEFAULT_DURATION_S, MAX_ROUNDS * found.seconds), MAX_ROUNDS_S)
        return max(min(seconds, found.seconds_for(MAX_EVENTS)), (MIN_ROUNDS + 1) * found.seconds)

    def _count_events(self) -> float:
        """In how many seconds steps make as many events as a window may hold, by another short look
        at them; infinity where that tells none.
        """
        profiler, found = self._session.profilers.get("jax"), None
        if isinstance(profiler, JaxProfiler) and not self._compiling():
            with contextlib.suppress(ProfilerBusy, NotImplementedError):
                found = self._looks.take(profiler, FIRST_DURATION_S, self._over)
            self._over.wait(SNAPSHOT_INTERVAL_S)
        return found.seconds_for(MAX_EVENTS) if found else math.inf

    def _compiling(self) -> bool:
        """Whether JAX is in the middle of a compilation; one of which nothing is heard for long was
        only lowered, or failed.
        """
        heard = self._compiles.last_event_s
        return self._compiles.is_pending and heard is not None and time.monotonic() - heard < MAX_COMPILATION_S

    def _waiting(self) -> None:
        """Tell now and then that the training is waited for, and what runs meanwhile."""
        now = time.monotonic()
        self._waited = self._waited or now
        due = (
            MESSAGE_TIMES_S[self._told]
            if self._told < len(MESSAGE_TIMES_S)
            else MESSAGE_TIMES_S[-1] * (self._told - len(MESSAGE_TIMES_S) + 2)
        )
        if now - self._waited >= due:
            self._told += 1
            at, last = main_thread_line(), self.detector.last_repetition
            what = (
                f": {last.what} comes round, and computes no gradients"
                if last is not None and last.rounds and not last.trains
                else ""
            )
            print_message(f"waiting for the training since {now - self._waited:.0f} s{what}{f' (now at {at})' if at else ''}")

    def _refused(self, profile: str) -> str:
        """Why a window is not kept: nothing came round in it three whole times, that is over, or
        something that takes much came once; "" where none of it is so, or nobody can tell.
        """
        found = self._questions.analyze(profile) or Repetition(rounds=MIN_ROUNDS)
        self._during = found
        self._tries += 1
        if self._last or self._tries == MAX_TRIES:
            return ""
        if found.rounds < MIN_ROUNDS:
            self._longer = max(2 * self._longer, (MIN_ROUNDS + 1) * found.seconds)
            return f"it holds no three whole steps: {found.why or 'nothing came round in it'}"
        if found.next:
            return f"what came round in it is over, and {found.next} trains now"
        if found.once < RARE_SHARE:
            return ""
        self._longer, self._last = RARE_GROWTH * self._longer, True
        return f"one step took {found.once:.0%} of its time: a longer one may hold two of that"

    def _capture(self, seconds: float) -> bool:
        """Open a window for so long, or longer where the options ask for none of so many seconds;
        False where it cannot open.
        """
        window, by_itself = self._session.window, self._session.options.seconds is None
        if by_itself:
            seconds = self._longer = min(max(seconds, self._longer), MAX_ROUNDS_S)
        step = StepCandidate("seconds", None, framework_in_use() or "tensorflow", seconds=seconds if by_itself else None)
        if not window.open_by_time(step, ignore_steps=by_itself):
            return False
        self._during = Repetition()
        self._over.wait(seconds)
        if by_itself:
            self._outlast_compilations(time.monotonic() + MAX_LENGTH_S - seconds)
        window.close(self._refused if by_itself and not self._over.is_set() else None, defer_stop=self._looked)
        if not window.is_decided:  # thrown away, and with it what was noted
            self._compiles.compilations.clear()
        elif self._looked:
            cycles = StepDurations()
            try:
                cycles = self._cycles()
            finally:
                window.record_overhead(cycles)
        return True

    def _cycles(self) -> StepDurations:
        """How long a round takes inside the window, and behind it without a profiler."""
        profiler = self._session.profilers["jax"]
        if self._over.is_set():
            return StepDurations()
        assert isinstance(profiler, JaxProfiler)
        with contextlib.suppress(ProfilerBusy):
            return self._looks.measure_overhead(profiler, self._during, self._over)
        return StepDurations()

    def _outlast_compilations(self, until: float) -> None:
        """A window that opened during set-up, or at a step of a new shape, goes on until it holds
        steps that only run.
        """
        while (now := time.monotonic()) < until:
            compiled = self._compiles.last_event_s
            if (
                compiled is None
                or (now - compiled >= MIN_STEADY_S and not self._compiles.is_pending)
                or self._over.wait(_POLL_S)
            ):
                return

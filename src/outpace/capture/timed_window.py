"""A window by time alone, for scripts whose steps cannot be seen (JAX loops without marks, eager
loops over arrays).

With `seconds` among the options it opens `delay` seconds after the framework's import. Without, it
opens by itself when the training runs and no source of steps has seen any of it: in TensorFlow when
gradients are taken repeatedly, in JAX when snapshots show repeated work (`host_snapshots.py`). A
window with fewer than three whole rounds is discarded, and another one opens. The analysis later
infers the steps from what was recorded.
"""

from __future__ import annotations

import contextlib
import math
import sys
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
from outpace.store.record import StepDurations

# duration of a window that opens by itself, where the duration of a round is not known
DEFAULT_LENGTH_S = 3.0
MAX_ROUNDS = 8  # number of rounds for which a window may last longer than `DEFAULT_DURATION_S`
MAX_ROUNDS_S = 60.0
# maximum number of events in a window, unless three whole rounds have more: ending it takes 3 to 7
# us per event
MAX_EVENTS = 500_000
MIN_STEADY_S = 2.0  # minimum duration of a window after the last compilation
# maximum duration of a window that waits for compilations: a script may compile in every step
MAX_LENGTH_S = 14.0
EAGER_DELAY_S = 1.5  # delay after the first sign of an eager loop that trains
MAX_COMPILATION_S = 60.0  # time without an event after which a compilation counts as ended
MIN_TAPES = 5  # number of gradient tapes outside any step that show an eager training loop
SNAPSHOT_INTERVAL_S = 1.0
# factor between the durations of two windows, where the second one is to contain a rare step twice
RARE_GROWTH = 4
MAX_TRIES = 3  # maximum number of windows; the last one is accepted whatever it contains
# times of waiting at which a message says so; then every minute
MESSAGE_TIMES_S = (5.0, 15.0, 30.0, 60.0)
_POLL_S = 0.1
_END_S = 10.0  # time limit for starting or stopping a profiler when the script ends


class TimedWindow:
    """Opens the window by time, if no step was seen by then; closes it, and stops the script when
    the options ask for it.

    tape_count: gradient tapes that were entered outside any step.
    detector: decides from snapshots whether the training runs.
    """

    def __init__(self, session: CaptureSession, compilations: CompilationRecorder, request_folder: str = "") -> None:
        """Create a window for this session, which does not wait yet.

        compilations: recorder of JAX's compilations.
        request_folder: folder through which profiles are analysed; "" where no process answers.
        """
        self._session = session
        self._compiles = compilations
        self._over = threading.Event()
        self._questions = AnalysisClient(request_folder, self._over)
        self._looks = HostSnapshots(self._questions, request_folder)
        session.pause_snapshots = self._looks.pause
        session.window.max_window_s = self.max_window_s
        self._thread: threading.Thread | None = None
        # import time of the last framework, monotonic seconds: TensorFlow imports JAX before it is
        # complete itself
        self._imported = 0.0
        self._training: float | None = None  # time of the first sign of training, monotonic seconds
        # start of the waiting for the training, monotonic seconds
        self._waited: float | None = None
        self._told = 0
        self._looked = False  # a snapshot showed that the training runs
        self._during = Repetition()  # repeated work inside the window
        # number of analysed windows; whether the open one is the last try
        self._tries, self._last = 0, False
        # minimum duration of the next window, after one that was too short, seconds
        self._longer = 0.0
        # whether events are counted, of steps that are about to be captured
        self._counts_events = False
        self._within = math.inf  # maximum duration of a window of those steps, seconds
        self.tape_count = 0
        self.detector = TrainingDetector(mentions_training)

    def start(self) -> None:
        """Start waiting after the import of a framework; where it waits already, the delay counts
        from now.
        """
        self._imported = time.monotonic()
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._wait, name="outpace-window", daemon=True)
        self._thread.start()

    def max_window_s(self, step: StepCandidate) -> float:
        """Return the maximum duration of a window of these steps, seconds, so that it does not
        contain too many events by the snapshots so far.
        """
        self._counts_events = step.framework == "jax" and self._session.options.lasting > 0
        return self._within

    def end(self) -> None:
        """Stop waiting when the script has ended.

        The thread is waited for, because a thread that the interpreter ends inside the profiler
        takes the process with it.
        """
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            wait_and_serve(self._goes_on, _END_S)

    def describe_activity(self) -> str:
        """Return a sentence on what ran while the session waited for the training; "" where nothing
        did.
        """
        seen = self.detector.describe()
        return f" What was seen: {seen}" if seen and not self._session.window.is_decided else ""

    def _goes_on(self, seconds: float) -> bool:
        """Wait for the thread, `seconds` at most, and return whether it is still running."""
        assert self._thread is not None
        self._thread.join(seconds)
        return self._thread.is_alive()

    def _wait(self) -> None:
        """Thread of the window; reports its exceptions."""
        try:
            self._await()
        except Exception as error:
            count_fault(error)
            print_message(f"the capture by time ended: {type(error).__name__}: {error}")

    def _await(self) -> None:
        """Wait for the training and capture it, until a window is accepted or the script ends."""
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
        """Whether the framework that would be captured is imported. TensorFlow imports JAX, and may
        then take longer than the delay itself.
        """
        return (framework_in_use() or "tensorflow") in self._session.profilers

    def _length(self) -> float | None:
        """Return the duration of a window without steps that is to open now, seconds; None where
        none is to open.
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
        """Whether there is a sign of training: JAX has touched a device, or gradients are taken
        repeatedly.
        """
        if framework_in_use() == "jax":
            return bool(getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None))
        return self.tape_count >= MIN_TAPES

    def _look(self) -> float | None:
        """Take a snapshot of what JAX runs. Return the duration of the window where that is the
        training, or where this JAX allows no snapshots; else None.
        """
        profiler = self._session.profilers.get("jax")
        self._waiting()
        if not isinstance(profiler, JaxProfiler) or self._compiling() or self._over.wait(SNAPSHOT_INTERVAL_S):
            return None
        try:
            found = self._looks.take(profiler, self.detector.next_duration_s, self._over)
        except ProfilerBusy:
            return None
        # without snapshots, only a window can show whether the work repeats
        except NotImplementedError:
            return DEFAULT_LENGTH_S
        if found is None or not self.detector.add(found, time.monotonic()) or self._session.window.expects_steps:
            return None
        self._looked = True
        seconds = min(max(DEFAULT_DURATION_S, MAX_ROUNDS * found.seconds), MAX_ROUNDS_S)
        return max(min(seconds, found.seconds_for(MAX_EVENTS)), (MIN_ROUNDS + 1) * found.seconds)

    def _count_events(self) -> float:
        """Return the time in which steps make as many events as a window may contain, seconds, from
        another short snapshot; infinity where that is unknown.
        """
        profiler, found = self._session.profilers.get("jax"), None
        if isinstance(profiler, JaxProfiler) and not self._compiling():
            with contextlib.suppress(ProfilerBusy, NotImplementedError):
                found = self._looks.take(profiler, FIRST_DURATION_S, self._over)
            self._over.wait(SNAPSHOT_INTERVAL_S)
        return found.seconds_for(MAX_EVENTS) if found else math.inf

    def _compiling(self) -> bool:
        """Whether JAX is compiling. A compilation without an event for `MAX_COMPILATION_S` was only
        lowered, or failed.
        """
        heard = self._compiles.last_event_s
        return self._compiles.is_pending and heard is not None and time.monotonic() - heard < MAX_COMPILATION_S

    def _waiting(self) -> None:
        """Print at the times of `MESSAGE_TIMES_S` that the session waits for the training, and what
        runs meanwhile.
        """
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
        """Return why the window with this profile is rejected, or "".

        Reasons: it has fewer than three whole rounds, its repeated work is over, or a rare long
        step is in it only once. A profile that cannot be analysed and the last try are accepted.
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
        """Open a window for `seconds`, or longer after one that was too short; False where it
        cannot open.
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
        if not window.is_decided:  # the window was discarded, and its compilations with it
            self._compiles.compilations.clear()
        elif self._looked:
            cycles = StepDurations()
            try:
                cycles = self._cycles()
            finally:
                window.record_overhead(cycles)
        return True

    def _cycles(self) -> StepDurations:
        """Return the duration of a round inside the window, and after it without a profiler."""
        profiler = self._session.profilers["jax"]
        if self._over.is_set():
            return StepDurations()
        assert isinstance(profiler, JaxProfiler)
        with contextlib.suppress(ProfilerBusy):
            return self._looks.measure_overhead(profiler, self._during, self._over)
        return StepDurations()

    def _outlast_compilations(self, until: float) -> None:
        """Wait until the window contains steps without compilation, or until the monotonic time
        `until`. It may have opened during set-up, or at a step of a new shape.
        """
        while (now := time.monotonic()) < until:
            compiled = self._compiles.last_event_s
            if (
                compiled is None
                or (now - compiled >= MIN_STEADY_S and not self._compiles.is_pending)
                or self._over.wait(_POLL_S)
            ):
                return

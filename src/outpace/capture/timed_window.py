# SPDX-License-Identifier: Apache-2.0
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
import dataclasses
import math
import threading
import time

from outpace.capture.compilations import CompilationRecorder
from outpace.capture.faults import count_fault
from outpace.capture.frameworks import framework_in_use
from outpace.capture.host_snapshots import (
    FIRST_DURATION_S,
    MAX_DURATION_S,
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
_END_TIMEOUT_S = 10.0  # time limit for starting or stopping a profiler when the script ends


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
        self._compilations = compilations
        self._stop_event = threading.Event()
        self._client = AnalysisClient(request_folder, self._stop_event)
        self._snapshots = HostSnapshots(self._client, request_folder)
        session.pause_snapshots = self._snapshots.pause
        session.window.max_window_s = self.max_window_s
        self._thread: threading.Thread | None = None
        # import time of the last framework, monotonic seconds: TensorFlow imports JAX before it is
        # complete itself
        self._import_time_s = 0.0
        self._training_since_s: float | None = None  # time of the first sign of training, monotonic seconds
        # start of the waiting for the training, monotonic seconds
        self._waiting_since_s: float | None = None
        self._message_count = 0
        self._is_training = False  # a snapshot showed that the training runs
        self._repetition = Repetition()  # repeated work inside the window
        # number of analysed windows; whether the open one is the last try
        self._try_count, self._is_last_try = 0, False
        # minimum duration of the next window, after one that was too short, seconds
        self._min_length_s = 0.0
        # whether events are counted, of steps that are about to be captured
        self._counts_events = False
        self._max_length_s = math.inf  # maximum duration of a window of those steps, seconds
        self.tape_count = 0
        self.detector = TrainingDetector(mentions_training)

    def start(self) -> None:
        """Start waiting after the import of a framework; where it waits already, the delay counts
        from now.
        """
        self._import_time_s = time.monotonic()
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="outpace-window", daemon=True)
        self._thread.start()

    def max_window_s(self, step: StepCandidate) -> float:
        """Return the maximum duration of a window of these steps, seconds, so that it does not
        contain too many events by the snapshots so far.
        """
        self._counts_events = step.framework == "jax" and self._session.options.lasting > 0
        return self._max_length_s

    def end(self) -> None:
        """Stop waiting when the script has ended.

        The thread is waited for, because a thread that the interpreter ends inside the profiler
        takes the process with it.
        """
        self._stop_event.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            wait_and_serve(self._join_thread, _END_TIMEOUT_S)

    def describe_activity(self) -> str:
        """Return a sentence on what ran while the session waited for the training; "" where nothing
        did.
        """
        activity = self.detector.describe()
        return f" What was seen: {activity}" if activity and not self._session.window.is_decided else ""

    def _join_thread(self, seconds: float) -> bool:
        """Wait for the thread, `seconds` at most, and return whether it is still running."""
        assert self._thread is not None
        self._thread.join(seconds)
        return self._thread.is_alive()

    def _run(self) -> None:
        """Thread of the window; reports its exceptions."""
        try:
            self._capture_when_training()
        except Exception as error:
            count_fault(error)
            print_message(f"the capture by time ended: {type(error).__name__}: {error}")

    def _capture_when_training(self) -> None:
        """Wait for the training and capture it, until a window is accepted or the script ends."""
        options = self._session.options
        if options.seconds is not None:
            while (remaining := self._import_time_s + options.delay - time.monotonic()) > 0 or not self._is_imported():
                if self._stop_event.wait(max(remaining, _POLL_S)):
                    return
        while not self._stop_event.is_set() and not self._session.window.is_decided:
            seconds = self._next_length() if options.seconds is None else options.seconds
            if seconds is None:
                self._stop_event.wait(_POLL_S)
            elif not self._capture(seconds):  # steps were seen, or another profiler runs
                self._stop_event.wait(SNAPSHOT_INTERVAL_S)

    def _is_imported(self) -> bool:
        """Whether the framework that would be captured is imported. TensorFlow imports JAX, and may
        then take longer than the delay itself.
        """
        return (framework_in_use() or "tensorflow") in self._session.profilers

    def _next_length(self) -> float | None:
        """Return the duration of a window without steps that is to open now, seconds; None where
        none is to open.
        """
        if self._session.window.expects_steps or not self._shows_training():
            self._training_since_s = self._waiting_since_s = None
            if self._counts_events:
                self._max_length_s = min(self._max_length_s, self._seconds_to_event_limit())
            return None
        if framework_in_use() == "jax":
            return self._take_snapshot()
        self._training_since_s = self._training_since_s or time.monotonic()
        return DEFAULT_LENGTH_S if time.monotonic() - self._training_since_s >= EAGER_DELAY_S else None

    def _shows_training(self) -> bool:
        """Whether there is a sign of training: JAX has touched a device, or gradients are taken
        repeatedly.
        """
        if framework_in_use() == "jax":
            return bool(BACKENDS.value)
        return self.tape_count >= MIN_TAPES

    def _take_snapshot(self) -> float | None:
        """Take a snapshot of what JAX runs. Return the duration of the window where that is the
        training, or where this JAX allows no snapshots; else None.
        """
        profiler = self._session.profilers.get("jax")
        self._print_waiting()
        again = self._compilations.is_pending_again
        if again:  # what comes round takes at least as long as a compilation
            self.detector.next_duration_s = MAX_DURATION_S
        if (
            not isinstance(profiler, JaxProfiler)
            or (self._is_compiling() and not again)
            or self._stop_event.wait(SNAPSHOT_INTERVAL_S)
        ):
            return None
        try:
            repetition = self._snapshots.take(profiler, self.detector.next_duration_s, self._stop_event)
        except ProfilerBusy:
            return None
        except NotImplementedError:
            # without snapshots, only a window can show whether the work repeats
            return DEFAULT_LENGTH_S
        if repetition is not None and again:
            repetition = dataclasses.replace(repetition, busy=True)
        if repetition is None or not self.detector.add(repetition, time.monotonic()) or self._session.window.expects_steps:
            return None
        self._is_training = True
        seconds = min(max(DEFAULT_DURATION_S, MAX_ROUNDS * repetition.seconds), MAX_ROUNDS_S)
        return max(min(seconds, repetition.seconds_for(MAX_EVENTS)), (MIN_ROUNDS + 1) * repetition.seconds)

    def _seconds_to_event_limit(self) -> float:
        """Return the time in which steps make as many events as a window may contain, seconds, from
        another short snapshot; infinity where that is unknown.
        """
        profiler, repetition = self._session.profilers.get("jax"), None
        if isinstance(profiler, JaxProfiler) and not self._is_compiling():
            with contextlib.suppress(ProfilerBusy, NotImplementedError):
                repetition = self._snapshots.take(profiler, FIRST_DURATION_S, self._stop_event)
            self._stop_event.wait(SNAPSHOT_INTERVAL_S)
        return repetition.seconds_for(MAX_EVENTS) if repetition else math.inf

    def _is_compiling(self) -> bool:
        """Whether JAX is compiling. A compilation without an event for `MAX_COMPILATION_S` was only
        lowered, or failed.
        """
        event_s = self._compilations.last_event_s
        return self._compilations.pending is not None and event_s is not None and time.monotonic() - event_s < MAX_COMPILATION_S

    def _print_waiting(self) -> None:
        """Print at the times of `MESSAGE_TIMES_S` that the session waits for the training, and what
        runs meanwhile.
        """
        now = time.monotonic()
        self._waiting_since_s = self._waiting_since_s or now
        due = (
            MESSAGE_TIMES_S[self._message_count]
            if self._message_count < len(MESSAGE_TIMES_S)
            else MESSAGE_TIMES_S[-1] * (self._message_count - len(MESSAGE_TIMES_S) + 2)
        )
        if now - self._waiting_since_s >= due:
            self._message_count += 1
            line, repetition = main_thread_line(), self.detector.last_repetition
            activity = (
                f": {repetition.what} comes round, and computes no gradients"
                if repetition is not None and repetition.rounds and not repetition.trains
                else ""
            )
            print_message(
                f"waiting for the training since {now - self._waiting_since_s:.0f} s{activity}{f' (now at {line})' if line else ''}"
            )

    def _find_problem(self, profile: str) -> str:
        """Return why the window with this profile is rejected, or "".

        Reasons: it has fewer than three whole rounds, its repeated work is over, or a rare long
        step is in it only once. A profile that cannot be analysed and the last try are accepted.
        """
        repetition = self._client.analyze(profile) or Repetition(rounds=MIN_ROUNDS)
        self._repetition = repetition
        self._try_count += 1
        if self._is_last_try or self._try_count == MAX_TRIES:
            return ""
        if repetition.rounds < MIN_ROUNDS:
            self._min_length_s = max(2 * self._min_length_s, (MIN_ROUNDS + 1) * repetition.seconds)
            return f"it holds no three whole steps: {repetition.why or 'nothing came round in it'}"
        if repetition.next:
            return f"what came round in it is over, and {repetition.next} trains now"
        if repetition.once < RARE_SHARE:
            return ""
        self._min_length_s, self._is_last_try = RARE_GROWTH * self._min_length_s, True
        return f"one step took {repetition.once:.0%} of its time: a longer one may hold two of that"

    def _capture(self, seconds: float) -> bool:
        """Open a window for `seconds`, or longer after one that was too short; False where it
        cannot open.
        """
        window, is_automatic = self._session.window, self._session.options.seconds is None
        if is_automatic:
            seconds = self._min_length_s = min(max(seconds, self._min_length_s), MAX_ROUNDS_S)
        step = StepCandidate("seconds", None, framework_in_use() or "tensorflow", seconds=seconds if is_automatic else None)
        if not window.open_by_time(step, ignore_steps=is_automatic):
            return False
        self._repetition = Repetition()
        self._stop_event.wait(seconds)
        if is_automatic:
            self._wait_for_compilations(time.monotonic() + MAX_LENGTH_S - seconds)
        window.close(
            self._find_problem if is_automatic and not self._stop_event.is_set() else None, defer_stop=self._is_training
        )
        if not window.is_decided:  # the window was discarded, and its compilations with it
            self._compilations.compilations.clear()
        elif self._is_training:
            overhead = StepDurations()
            try:
                overhead = self._measure_overhead()
            finally:
                window.record_overhead(overhead)
        return True

    def _measure_overhead(self) -> StepDurations:
        """Return the duration of a round inside the window, and after it without a profiler."""
        profiler = self._session.profilers["jax"]
        if self._stop_event.is_set():
            return StepDurations()
        assert isinstance(profiler, JaxProfiler)
        with contextlib.suppress(ProfilerBusy):
            return self._snapshots.measure_overhead(profiler, self._repetition, self._stop_event)
        return StepDurations()

    def _wait_for_compilations(self, deadline: float) -> None:
        """Wait until the window contains steps without compilation, or until the monotonic time
        `deadline`. It may have opened during set-up, or at a step of a new shape.
        """
        while (now := time.monotonic()) < deadline:
            event_s = self._compilations.last_event_s
            if (
                event_s is None
                or (now - event_s >= MIN_STEADY_S and self._compilations.pending is None)
                or self._stop_event.wait(_POLL_S)
            ):
                return

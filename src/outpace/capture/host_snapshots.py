# SPDX-License-Identifier: Apache-2.0
"""Takes short profiles ("snapshots") of the host while a JAX program runs, until it repeats its
work as a training does. Standard library only.

JAX's own calls are C++, and cannot be watched without changing what the script gets from `jax.jit`.
So the profiler records the host alone for a twentieth of a second, every second, without a tracer
of devices where this version of JAX allows that. The command that waits for the script analyses the
snapshots (`repetition.py`), with the rule that finds the steps of a finished profile.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from outpace.capture.main_thread import hold_lock, run_between_calls
from outpace.capture.options import UNTRAINED_TIMEOUT_S, AnalysisRequest, ProgramRuns, Repetition
from outpace.capture.profilers import HostSession, JaxProfiler, ProfilerBusy
from outpace.capture.stacks import owner_of
from outpace.frameworks.jax import DERIVATIVES_FILE
from outpace.store.record import StepDurations

FIRST_DURATION_S, MAX_DURATION_S = 0.05, 3.0  # shortest and longest duration of a snapshot
# maximum number of events in a snapshot that is longer than MAX_DURATION_FLOOR_S
MAX_EVENTS = 200_000
MAX_DURATION_FLOOR_S = 1.0
# factor between the durations of two snapshots, while JAX works and nothing repeats
DURATION_GROWTH = 4
MIN_ROUNDS = 3  # minimum number of whole rounds
# pause between two snapshots, in which MANY_ROUNDS rounds run without a profiler
MIN_GAP_S, MAX_GAP_S = 1.0, 5.0
MANY_ROUNDS = 10
GAP_LIMIT_S = 10.0  # longest pause that may be needed for MIN_ROUNDS rounds
MAX_PAIRS = 3  # pairs of snapshots: one pair may fall into the pause between two epochs
SNAPSHOT_ROUNDS, MIN_SNAPSHOT_S = 2, 0.02  # duration of a snapshot of such a pair
# number of snapshots of the longest duration without repetition, after which the steps count as
# longer than a snapshot
MAX_LONG_SNAPSHOTS = 2
REQUEST_FILE, RESPONSE_FILE = "question.json", "answer-{number}.json"
RESPONSE_TIMEOUT_S = 10.0  # time in which the waiting command must answer
_POLL_S = 0.01
_TRAINING_WORDS = re.compile(r"grad|vjp|\bfit\b|train", re.IGNORECASE)
_MAX_SOURCE_CHARS = 4 << 20


class AnalysisClient:
    """Requests the analysis of profiles from the command that waits for the script, one at a
    time.
    """

    def __init__(self, folder: str, stop_event: threading.Event | None = None) -> None:
        """Create a client.

        folder: folder for requests and responses; "" where no process answers.
        stop_event: set when the script has ended and waits for no response.
        """
        self._folder = folder
        self._stop_event = stop_event or threading.Event()
        self._request_count = 0
        self._lock = threading.Lock()

    def analyze(self, profile: str) -> Repetition | None:
        """Return the repeated work in the profile at this path; None where no response comes in
        time.
        """
        if not self._folder:
            return None
        with self._lock, contextlib.suppress(OSError, ValueError, TypeError):
            self._request_count += 1
            request_path, response_path = (
                os.path.join(self._folder, name.format(number=self._request_count)) for name in (REQUEST_FILE, RESPONSE_FILE)
            )
            with open(f"{request_path}.part", "w", encoding="utf-8") as file:
                file.write(AnalysisRequest(profile, self._request_count).to_json())
            os.replace(f"{request_path}.part", request_path)
            deadline = time.monotonic() + RESPONSE_TIMEOUT_S
            while time.monotonic() < deadline and not self._stop_event.wait(_POLL_S):
                with contextlib.suppress(FileNotFoundError), open(response_path, encoding="utf-8") as file:
                    return Repetition.from_json(file.read())
        return None


class _Snapshot(NamedTuple):
    """A profile of the host alone.

    profile: bytes of the profile.
    begin_ns: its start on the monotonic clock, ns.
    is_busy: whether a device worked meanwhile.
    has_gradients: whether a gradient was computed op by op meanwhile.
    """

    profile: bytes
    begin_ns: int
    is_busy: bool
    has_gradients: bool


class HostSnapshots:
    """Takes snapshots and has them analysed."""

    def __init__(self, client: AnalysisClient, folder: str) -> None:
        """Create it with the `client` that analyses snapshots and the `folder` for their files."""
        self._client = client
        self._lock = threading.Lock()
        self._paused = threading.Event()
        self._path = os.path.join(folder, "look.xplane.pb")

    def take(self, profiler: JaxProfiler, seconds: float, stop_event: threading.Event) -> Repetition | None:
        """Return the repeated work in a snapshot of `seconds`; None where it cannot be analysed.

        Raises ProfilerBusy while another profiler runs.
        """
        snapshot = self._record(profiler, seconds, stop_event)
        repetition = self._analyze(snapshot)
        return repetition and repetition.with_activity(seconds, is_busy=snapshot.is_busy, has_gradients=snapshot.has_gradients)

    def measure_overhead(self, profiler: JaxProfiler, repetition: Repetition, stop_event: threading.Event) -> StepDurations:
        """Return the duration of a round in a window and after it, without a profiler.

        repetition: the repeated work in the window.

        Two snapshots with a pause between them give the number of rounds in the pause, from the run
        ids of a compiled program. Returns empty durations where they do not. Raises ProfilerBusy
        while another profiler runs.
        """
        pause_s = max(MIN_GAP_S, min(MANY_ROUNDS * repetition.seconds, MAX_GAP_S), MIN_ROUNDS * repetition.seconds)
        if pause_s > GAP_LIMIT_S or not repetition.runs:
            return StepDurations()
        seconds = SNAPSHOT_ROUNDS * repetition.seconds + MIN_SNAPSHOT_S
        for _ in range(MAX_PAIRS):
            first = self._record(profiler, seconds, stop_event)
            if stop_event.wait(pause_s):
                break
            second = self._record(profiler, seconds, stop_event)
            # analysed only now, because the analysis uses a core
            earlier, later = (self._analyze(snapshot) or Repetition() for snapshot in (first, second))
            overhead = compute_overhead(repetition, earlier.runs, later.runs, second.begin_ns - first.begin_ns)
            if overhead.after_ns:
                return overhead
        return StepDurations()

    def _record(self, profiler: JaxProfiler, duration_s: float, stop_event: threading.Event) -> _Snapshot:
        """Return a snapshot of `duration_s`, or shorter where `stop_event` is set or snapshots are
        paused.
        """
        is_busy, has_gradients = False, False
        with self._lock:
            session = run_between_calls(lambda: self._begin_session(profiler), is_ready=profiler.is_ready)
            begin_ns, deadline = time.monotonic_ns(), time.monotonic() + duration_s
            try:
                while (remaining := deadline - time.monotonic()) > 0 and not self._paused.is_set():
                    if stop_event.wait(min(remaining, duration_s / 8)):
                        break
                    is_busy = is_busy or profiler.is_device_busy()
                    has_gradients = has_gradients or _is_computing_gradient()
            finally:
                profile = run_between_calls(session.stop, is_ready=profiler.is_ready)
        return _Snapshot(profile, begin_ns, is_busy, has_gradients)

    def _analyze(self, snapshot: _Snapshot) -> Repetition | None:
        """Return the repeated work in a snapshot; None where no response comes or the file cannot
        be written.
        """
        with contextlib.suppress(OSError):
            with open(self._path, "wb") as file:
                file.write(snapshot.profile)
            repetition = self._client.analyze(self._path)
            os.remove(self._path)
            return repetition
        return None

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Take no snapshot inside this context; one that is being taken ends at once."""
        self._paused.set()
        try:
            with hold_lock(self._lock):
                yield
        finally:
            self._paused.clear()

    def _begin_session(self, profiler: JaxProfiler) -> HostSession:
        """Return a started session. Raises ProfilerBusy while snapshots are paused or another
        profiler runs.
        """
        if self._paused.is_set():
            raise ProfilerBusy
        return profiler.begin_host_session()


def compute_overhead(
    repetition: Repetition, first_runs: Iterable[ProgramRuns], second_runs: Iterable[ProgramRuns], gap_ns: int
) -> StepDurations:
    """Return the duration of a round in a window and after it, from runs of a program in the window
    and in two later snapshots.

    repetition: repeated work in the window.
    first_runs, second_runs: runs of programs in the two snapshots.
    gap_ns: time from the start of the first snapshot to the start of the second, ns.

    Returns empty durations where the three share no program. Run ids of two programs may be
    adjacent and be taken for one; a program whose cycle does not fit the rounds is therefore
    skipped.
    """
    for program in repetition.runs:
        first, second = program.find_same_program(first_runs), program.find_same_program(second_runs)
        as_rounds = 0.5 < program.cycle_ns / (1e9 * repetition.seconds) < 2 if repetition.seconds else False
        if program.per_round <= 0 or not as_rounds or first is None or second is None or second.first <= first.last:
            continue
        rounds = (second.first - first.last) / program.per_round
        if rounds < MIN_ROUNDS:
            continue
        round_ns = (gap_ns + second.first_ns - first.last_ns) / rounds
        return StepDurations((), (round(program.cycle_ns),), (round(round_ns),), (0, program.rounds, round(rounds)))
    return StepDurations()


class TrainingDetector:
    """Decides from several snapshots whether the program trains by now, and how long the next
    snapshot is.

    next_duration_s: duration of the next snapshot, seconds.
    last_repetition: repeated work of the last snapshot in which JAX worked.
    """

    def __init__(self, may_train: Callable[[], bool]) -> None:
        """Create it. `may_train()`: whether a program that has computed no gradients yet may do so
        later (see `mentions_training`).
        """
        self.next_duration_s = FIRST_DURATION_S
        self.last_repetition: Repetition | None = None
        self._last_duration_s = 0.0  # duration of the snapshot of `last_repetition`, seconds
        self._may_train = may_train
        self._untrained_since: float | None = None  # time since which work without gradients repeats, seconds
        # rounds by training function, over snapshots that each had too few
        self._rounds_by_function = Counter[str]()
        self._long_count = 0

    def add(self, repetition: Repetition, now: float) -> bool:
        """Take a snapshot's repetition into account, at the time `now` in seconds; return True
        where the training runs.
        """
        if repetition.busy or self.last_repetition is None:
            self.last_repetition, self._last_duration_s = repetition, self.next_duration_s
        if repetition.rounds >= MIN_ROUNDS:
            self.next_duration_s, self._long_count = FIRST_DURATION_S, 0
            if repetition.trains or repetition.predicts or not self._may_train():
                return True
            self._untrained_since = now if self._untrained_since is None else self._untrained_since
            return now - self._untrained_since >= UNTRAINED_TIMEOUT_S
        if not repetition.busy:
            self.next_duration_s, self._long_count, self._untrained_since = FIRST_DURATION_S, 0, None
            return False
        self._rounds_by_function[repetition.what] += repetition.rounds if repetition.trains else 0
        longest_s = max(MAX_DURATION_FLOOR_S, min(MAX_DURATION_S, repetition.seconds_for(MAX_EVENTS)))
        self._long_count += self.next_duration_s >= longest_s
        self.next_duration_s = min(DURATION_GROWTH * self.next_duration_s, longest_s)
        return self._rounds_by_function[repetition.what] >= MIN_ROUNDS or self._long_count >= MAX_LONG_SNAPSHOTS

    def describe(self) -> str:
        """Return a sentence on what ran while no training was seen; "" where JAX did nothing."""
        repetition = self.last_repetition
        if repetition is None or not repetition.busy:
            return ""
        if repetition.rounds >= MIN_ROUNDS:
            return f"{repetition.what} came round, and computed no gradients."
        return f"JAX was at work, and nothing came round {MIN_ROUNDS} times within {self._last_duration_s:.1g} s."


def mentions_training() -> bool:
    """Whether the program's source text mentions gradients or training; a program without will not
    compute gradients later.
    """
    for module in tuple(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py") and not owner_of(os.path.abspath(file)):
            with contextlib.suppress(OSError, ValueError), open(file, encoding="utf-8", errors="replace") as text:
                if _TRAINING_WORDS.search(text.read(_MAX_SOURCE_CHARS)):
                    return True
    return False


def main_thread_line() -> str:
    """Return the program's line at which the main thread is, such as `train.py:14`; "" where there
    is none.
    """
    frame = _main_frame()
    while frame is not None and owner_of(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""


def _is_computing_gradient() -> bool:
    """Whether the main thread is computing a gradient op by op, which no program's name shows."""
    frame = _main_frame()
    while frame is not None:
        if frame.f_code.co_filename.endswith(DERIVATIVES_FILE):
            return True
        frame = frame.f_back
    return False


def _main_frame() -> FrameType | None:
    """Return the innermost frame of the main thread, or None."""
    frames_by_thread: Any = sys._current_frames()
    frame: FrameType | None = frames_by_thread.get(threading.main_thread().ident)
    return frame

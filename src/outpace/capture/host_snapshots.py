"""Short looks at what a JAX program runs, until something comes round there as a training does.
Standard library only.

JAX's own calls are C++, and cannot be watched without changing what the script gets from `jax.jit`.
So the profiler records the host alone for a twentieth of a second, every second, without a tracer
of devices where this JAX can be told so; the command that waits for the script reads what was
recorded (`judge.py`), with the rule that finds the steps of a finished profile.
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

FIRST_DURATION_S, MAX_DURATION_S = 0.05, 3.0  # of a look
MAX_EVENTS = 200_000  # of a look, unless it is shorter than LEAST_LONGEST_S
MAX_DURATION_FLOOR_S = 1.0
DURATION_GROWTH = 4  # times as long as the last one is the next look while JAX works and nothing comes round
MIN_ROUNDS = 3  # whole times that something must come round
MIN_GAP_S, MAX_GAP_S = 1.0, 5.0  # between two looks, for MANY_ROUNDS that no profiler notes
MANY_ROUNDS = 10
GAP_LIMIT_S = 10.0  # for ROUNDS of them at least
MAX_PAIRS = 3  # of looks, of which one may fall into a pause between two epochs
SNAPSHOT_ROUNDS, MIN_SNAPSHOT_S = 2, 0.02  # that such a look lasts
MAX_LONG_SNAPSHOTS = 2  # of the longest, in which JAX worked and nothing came round: its steps are longer than a look
REQUEST_FILE, RESPONSE_FILE = "question.json", "answer-{number}.json"
RESPONSE_TIMEOUT_S = 10.0  # for the command that judges
_POLL_S = 0.01
_MAY_TRAIN = re.compile(r"grad|vjp|\bfit\b|train", re.IGNORECASE)
_LARGEST_SOURCE = 4 << 20


class AnalysisClient:
    """Profiles that the command which waits for the script is to judge, one at a time; it answers
    with what comes round in them.
    """

    def __init__(self, folder: str, stop_event: threading.Event | None = None) -> None:
        """`folder`: where questions and answers are left; "" where nobody answers. `stop_event`:
        the script has ended, and waits for no answer.
        """
        self._folder = folder
        self._over = stop_event or threading.Event()
        self._number = 0
        self._asking = threading.Lock()

    def analyze(self, profile: str) -> Repetition | None:
        """What comes round in the profile at this path; None where nobody answers in time."""
        if not self._folder:
            return None
        with self._asking, contextlib.suppress(OSError, ValueError, TypeError):
            self._number += 1
            question, answer = (
                os.path.join(self._folder, name.format(number=self._number)) for name in (REQUEST_FILE, RESPONSE_FILE)
            )
            with open(f"{question}.part", "w", encoding="utf-8") as file:
                file.write(AnalysisRequest(profile, self._number).to_json())
            os.replace(f"{question}.part", question)
            until = time.monotonic() + RESPONSE_TIMEOUT_S
            while time.monotonic() < until and not self._over.wait(_POLL_S):
                with contextlib.suppress(FileNotFoundError), open(answer, encoding="utf-8") as file:
                    return Repetition.from_json(file.read())
        return None


class _Look(NamedTuple):
    """A profile of the host alone, when it began (monotonic ns), whether a device worked meanwhile,
    and a gradient was computed op by op.
    """

    profile: bytes
    began_ns: int
    works: bool
    derives: bool


class HostSnapshots:
    """Takes looks of the host alone."""

    def __init__(self, client: AnalysisClient, folder: str) -> None:
        """`folder`: where a look is written for who judges it."""
        self._questions = client
        self._recording = threading.Lock()
        self._paused = threading.Event()
        self._path = os.path.join(folder, "look.xplane.pb")

    def take(self, profiler: JaxProfiler, seconds: float, stop_event: threading.Event) -> Repetition | None:
        """What comes round within so many seconds; None where it cannot be told. Raises
        ProfilerBusy while another profiler runs.
        """
        look = self._recorded(profiler, seconds, stop_event)
        found = self._judged(look)
        return found and found.with_activity(seconds, is_busy=look.works, has_gradients=look.derives)

    def measure_overhead(self, profiler: JaxProfiler, repetition: Repetition, stop_event: threading.Event) -> StepDurations:
        """How long a round takes inside a window, in which `repetition` came round, and behind it,
        where no profiler notes anything: two looks tell, by the numbers of the runs. Nothing where
        they do not. Raises ProfilerBusy while another profiler runs.
        """
        between = max(MIN_GAP_S, min(MANY_ROUNDS * repetition.seconds, MAX_GAP_S), MIN_ROUNDS * repetition.seconds)
        if between > GAP_LIMIT_S or not repetition.runs:
            return StepDurations()
        seconds = SNAPSHOT_ROUNDS * repetition.seconds + MIN_SNAPSHOT_S
        for _ in range(MAX_PAIRS):
            first = self._recorded(profiler, seconds, stop_event)
            if stop_event.wait(between):
                break
            second = self._recorded(profiler, seconds, stop_event)
            before, behind = (self._judged(look) or Repetition() for look in (first, second))  # not sooner: that takes a core
            found = compute_overhead(repetition, before.runs, behind.runs, second.began_ns - first.began_ns)
            if found.after_ns:
                return found
        return StepDurations()

    def _recorded(self, profiler: JaxProfiler, seconds: float, over: threading.Event) -> _Look:
        """A look of so many seconds."""
        works, derives = False, False
        with self._recording:
            session = run_between_calls(lambda: self._begun(profiler), is_ready=profiler.is_ready)
            began_ns, until = time.monotonic_ns(), time.monotonic() + seconds
            try:
                while (left := until - time.monotonic()) > 0 and not self._paused.is_set():
                    if over.wait(min(left, seconds / 8)):
                        break
                    works = works or profiler.is_device_busy()
                    derives = derives or _derives()
            finally:
                data = run_between_calls(session.stop, is_ready=profiler.is_ready)
        return _Look(data, began_ns, works, derives)

    def _judged(self, look: _Look) -> Repetition | None:
        """What comes round in a look; None where nobody answers."""
        with contextlib.suppress(OSError):
            with open(self._path, "wb") as file:
                file.write(look.profile)
            found = self._questions.analyze(self._path)
            os.remove(self._path)
            return found
        return None

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Take none meanwhile: one that is being taken ends at once."""
        self._paused.set()
        try:
            with hold_lock(self._recording):
                yield
        finally:
            self._paused.clear()

    def _begun(self, profiler: JaxProfiler) -> HostSession:
        """A session that has begun. Raises ProfilerBusy where the profiler is not ours to take."""
        if self._paused.is_set():
            raise ProfilerBusy
        return profiler.begin_host_session()


def compute_overhead(
    repetition: Repetition, first_runs: Iterable[ProgramRuns], second_runs: Iterable[ProgramRuns], gap_ns: int
) -> StepDurations:
    """How long a round takes inside a window and behind it, by runs of programs in the window and
    in two looks, of which the second began so much later than the first; nothing where they have no
    program in common. Numbers of two programs may lie side by side: then they say something else
    than the rounds.
    """
    for program in repetition.runs:
        before, behind = program.find_same_program(first_runs), program.find_same_program(second_runs)
        as_rounds = 0.5 < program.cycle_ns / (1e9 * repetition.seconds) < 2 if repetition.seconds else False
        if program.per_round <= 0 or not as_rounds or before is None or behind is None or behind.first <= before.last:
            continue
        rounds = (behind.first - before.last) / program.per_round
        if rounds < MIN_ROUNDS:
            continue
        took_ns = (gap_ns + behind.first_ns - before.last_ns) / rounds
        return StepDurations((), (round(program.cycle_ns),), (round(took_ns),), (0, program.rounds, round(rounds)))
    return StepDurations()


class TrainingDetector:
    """What several looks say together: whether the program trains by now, and how long the next
    look is to be.
    """

    def __init__(self, may_train: Callable[[], bool]) -> None:
        """`mentions_training`: whether a program that computes no gradients yet may do so later."""
        self.next_duration_s = FIRST_DURATION_S
        self.last_repetition: Repetition | None = None
        self._looked_s = 0.0  # that the last one took
        self._may_train = may_train
        self._since: float | None = None  # something comes round that computes no gradients
        self._rounds = Counter[str]()  # of what trains, in looks that each held too few
        self._long = 0

    def add(self, repetition: Repetition, now: float) -> bool:
        """Take one look into account, at a time in seconds; True where the training runs."""
        if repetition.busy or self.last_repetition is None:
            self.last_repetition, self._looked_s = repetition, self.next_duration_s
        if repetition.rounds >= MIN_ROUNDS:
            self.next_duration_s, self._long = FIRST_DURATION_S, 0
            if repetition.trains or repetition.predicts or not self._may_train():
                return True
            self._since = now if self._since is None else self._since
            return now - self._since >= UNTRAINED_TIMEOUT_S
        if not repetition.busy:
            self.next_duration_s, self._long, self._since = FIRST_DURATION_S, 0, None
            return False
        self._rounds[repetition.what] += repetition.rounds if repetition.trains else 0
        longest = max(MAX_DURATION_FLOOR_S, min(MAX_DURATION_S, repetition.seconds_for(MAX_EVENTS)))
        self._long += self.next_duration_s >= longest
        self.next_duration_s = min(DURATION_GROWTH * self.next_duration_s, longest)
        return self._rounds[repetition.what] >= MIN_ROUNDS or self._long >= MAX_LONG_SNAPSHOTS

    def describe(self) -> str:
        """What ran, where no training was seen, as a sentence; "" where nothing did."""
        last = self.last_repetition
        if last is None or not last.busy:
            return ""
        if last.rounds >= MIN_ROUNDS:
            return f"{last.what} came round, and computed no gradients."
        return f"JAX was at work, and nothing came round {MIN_ROUNDS} times within {self._looked_s:.1g} s."


def mentions_training() -> bool:
    """Whether the program's own text speaks of gradients, or of training: one that does not will
    compute none later on.
    """
    for module in tuple(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py") and not owner_of(os.path.abspath(file)):
            with contextlib.suppress(OSError, ValueError), open(file, encoding="utf-8", errors="replace") as text:
                if _MAY_TRAIN.search(text.read(_LARGEST_SOURCE)):
                    return True
    return False


def main_thread_line() -> str:
    """The line of the program at which the main thread is, as in `train.py:14`; "" where there is
    none.
    """
    frame = _main_frame()
    while frame is not None and owner_of(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""


def _derives() -> bool:
    """Whether the main thread is computing a gradient op by op, which no program's name tells."""
    frame = _main_frame()
    while frame is not None:
        if frame.f_code.co_filename.endswith(DERIVATIVES_FILE):
            return True
        frame = frame.f_back
    return False


def _main_frame() -> FrameType | None:
    frames: Any = sys._current_frames()
    found: FrameType | None = frames.get(threading.main_thread().ident)
    return found

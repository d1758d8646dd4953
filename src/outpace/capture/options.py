"""What to capture, and the plan that carries it into the script's process. Standard
library only.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from typing import Any

from outpace._dataclass import dataclass

DEFAULT_LOGDIR = "outpace-logs"  # in the working directory
DEFAULT_STEPS = 20  # of a window for which nothing else is asked
DEFAULT_DURATION_S = (
    2.0  # seconds of that: some two hundred samples of Python, and what comes round every few steps comes round twice
)
UNTRAINED_TIMEOUT_S = 20.0  # that something comes round without gradients, until it is captured of a program that may train yet
MAX_RUN_GAP = 1 << 24  # runs of one program between two profiles: numbers further apart are those of two programs
MAX_STEPS = 400  # of a window that lasts: a profile of short steps stays below some 100 MB


@dataclass(frozen=True)
class CaptureOptions:
    """How `run_script` captures.

    logdir: where the profile goes, in TensorBoard's layout, local or a URL; None is
    `DEFAULT_LOGDIR`. warmup: steps that run before the window opens (tracing, compilation and
    filling buffers are not the steady state). steps: captured steps; None captures by `seconds`
    alone. lasting: seconds that the window lasts at least: short steps are captured until then,
    `MAX_STEPS` at most. Samples of Python and what comes round every few steps need the time.
    seconds: longest duration of the window; it also makes a capture possible where no steps can be
    seen. delay: seconds from the framework's import to such a step-less window. stop: end the
    script after the capture; otherwise it trains on to its own end. after: steps that run on
    without the profiler before the script is stopped, to measure what the profiler costs.
    host_level, python_level, device_level: the profiler's tracer levels, as in
    `tf.profiler.experimental.ProfilerOptions`. label: give each tf.data stage a name with its
    source line, which then appears in the profile. module: `script` is a module name, run as
    `python -m` does. secrets: the record keeps keys and passwords among the script's arguments, for
    which dots stand otherwise. command_buffers: XLA may use CUDA graphs; without, launches take
    longer, and a capture may end on any thread.
    """

    logdir: str | None = None
    warmup: int = 10
    steps: int | None = DEFAULT_STEPS
    lasting: float = 0.0
    seconds: float | None = None
    delay: float = 10.0
    stop: bool = True
    after: int = 8
    host_level: int = 2
    python_level: int = 0
    device_level: int = 1
    label: bool = True
    module: bool = False
    secrets: bool = False
    command_buffers: bool = True

    @classmethod
    def for_command(cls, steps: int | None, seconds: float | None = None, **others: Any) -> CaptureOptions:
        """Options of a command, for which a number of steps or seconds may be asked:
        `DEFAULT_STEPS` for `DEFAULT_DURATION_S` seconds where neither is.
        """
        if steps is None and seconds is None:
            return cls(steps=DEFAULT_STEPS, lasting=DEFAULT_DURATION_S, **others)
        return cls(steps=steps, seconds=seconds, **others)

    def find_problem(self) -> str | None:
        """A sentence about what makes these options impossible, or None."""
        if self.steps is None and self.seconds is None:
            return "Nothing says how much to capture: give a number of steps, or of seconds."
        if self.steps is not None and self.steps < 1:
            return f"{self.steps} steps cannot be captured: give at least 1."
        if self.seconds is not None and not 0 < self.seconds < 86400:
            return f"{self.seconds:g} seconds cannot be captured: give more than 0, and less than a day."
        negative = next((name for name in ("warmup", "after", "delay") if getattr(self, name) < 0), None)
        return f"{negative} cannot be negative." if negative else None


@dataclass(frozen=True)
class Plan:
    """What the launcher reads in the script's process: the script, the options, where to leave the
    outcome, and the folder in which questions are answered ("": nobody does).
    """

    script: str
    argv: tuple[str, ...]
    logdir: str
    shown_logdir: str
    outcome: str
    options: CaptureOptions
    questions: str = ""

    def to_json(self) -> str:
        """The plan as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote."""
        data: dict[str, Any] = json.loads(text)
        data["options"] = CaptureOptions(**data["options"])
        data["argv"] = tuple(data["argv"])
        return cls(**data)


@dataclass(frozen=True)
class AnalysisRequest:
    """A profile (its path) in which the command that waits is to look for what comes round, and the
    number of its answer.
    """

    profile: str
    number: int

    def to_json(self) -> str:
        """It as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> AnalysisRequest:
        """What `to_json` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class ProgramRuns:
    """Runs of one compiled program in a profile. XLA numbers them, each program's by itself, so
    that two profiles tell how many ran between.

    first, last: the numbers of the first and of the last run; first_ns, last_ns: when those began,
    nanoseconds since the profile did; rounds: in how many rounds it ran; per_round: how often in
    each, 0 where nothing came round.
    """

    first: int
    first_ns: int
    last: int
    last_ns: int
    rounds: int = 0
    per_round: float = 0.0

    def find_same_program(self, others: Iterable[ProgramRuns]) -> ProgramRuns | None:
        """Later runs of the same program among those of several."""
        return next((runs for runs in others if 0 < runs.first - self.last <= MAX_RUN_GAP), None)

    @property
    def cycle_ns(self) -> float:
        """How long a round takes, from one's start to the next one's."""
        return (self.last_ns - self.first_ns) * self.per_round / (self.last - self.first) if self.last > self.first else 0.0


@dataclass(frozen=True)
class Repetition:
    """What comes round in a profile.

    rounds: how many whole times; seconds: how long one takes; events: of all threads; density: of
    them a second, 0 where nobody knows how long the profile is; what: the function that is called;
    trains: it computes gradients; predicts: its name says so; busy: the framework did anything at
    all; once: share of the time of all rounds in one that takes much longer than the others, and
    has no like; why: what the rounds were found by, or why there are none; next: the function that
    trains behind the last round, and in none of them; runs: of each compiled program, that of most
    rounds first.
    """

    rounds: int = 0
    seconds: float = 0.0
    events: int = 0
    density: float = 0.0
    what: str = ""
    trains: bool = False
    predicts: bool = False
    busy: bool = False
    once: float = 0.0
    why: str = ""
    next: str = ""
    runs: tuple[ProgramRuns, ...] = ()

    def with_activity(self, seconds: float, is_busy: bool, has_gradients: bool) -> Repetition:
        """The same of a profile of so many seconds, where the framework was seen at work meanwhile,
        and at a gradient.
        """
        density = self.events / seconds if seconds > 0 else 0.0
        return dataclasses.replace(self, density=density, busy=self.busy or is_busy, trains=self.trains or has_gradients)

    def seconds_for(self, events: int) -> float:
        """In how many seconds the program makes so many events."""
        return events / self.density if self.density else math.inf

    def to_json(self) -> str:
        """It as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Repetition:
        """What `to_json` wrote."""
        found: dict[str, Any] = json.loads(text)
        return cls(**{**found, "runs": tuple(ProgramRuns(**each) for each in found["runs"])})


@dataclass(frozen=True)
class ScriptOutcome:
    """What the launcher leaves behind: the saved run folder and host, or the reason why there is
    none.
    """

    run: str | None = None
    host: str | None = None
    reason: str | None = None
    stopped: bool = False
    exit_code: int | None = None
    ending: bool = False  # the script and its exit handlers are through; only the interpreter's own end is left

    def to_json(self) -> str:
        """The outcome as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ScriptOutcome:
        """The outcome that `to_json` wrote."""
        return cls(**json.loads(text))

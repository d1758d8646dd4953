# SPDX-License-Identifier: Apache-2.0
"""Options of a capture, the plan that carries them into the script's process, and the messages that
the two processes exchange. Standard library only.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from typing import Any

from outpace._dataclass import dataclass

DEFAULT_LOGDIR = "outpace-logs"  # folder in the working directory
DEFAULT_STEPS = 20  # number of captured steps where the user asks for none
# minimum duration of a default window: about 200 samples of Python, and what happens every few
# steps happens at least twice
DEFAULT_DURATION_S = 2.0
# time for which repeated work without gradients is seen before it is captured, in a program that
# may train later
UNTRAINED_TIMEOUT_S = 20.0
# maximum difference of run ids of one program between two profiles; a larger one means two programs
MAX_RUN_GAP = 1 << 24
# maximum number of steps in a window with a minimum duration: a profile of short steps stays below
# about 100 MB
MAX_STEPS = 400


@dataclass(frozen=True)
class CaptureOptions:
    """Options with which `run_script` captures.

    logdir: log directory of the profile, in TensorBoard's layout; a path or a URL. None means
        `DEFAULT_LOGDIR`.
    warmup: steps that run before the window opens: tracing, compilation and filling buffers are not
        the steady state.
    steps: number of captured steps; None captures by `seconds` alone.
    lasting: minimum duration of the window, seconds. Short steps are captured until then,
        `MAX_STEPS` at most, because samples of Python and work that is done every few steps need
        the time.
    seconds: maximum duration of the window. It also makes a capture possible where no steps can be
        seen.
    delay: seconds from the framework's import to the window, where that is captured by time alone.
    stop: whether the script is ended after the capture; otherwise it trains on to its own end.
    after: steps that run without the profiler before the script is stopped; they measure what the
        profiler costs.
    host_level, python_level, device_level: tracer levels of the profiler, as in
        `tf.profiler.experimental.ProfilerOptions`.
    label: whether each tf.data stage gets a name with its source line, which the profile then
        shows.
    module: whether `script` is the name of a module, run as `python -m` does.
    secrets: whether the record stores keys and passwords of the script's arguments; without it they
        are masked with dots.
    command_buffers: whether XLA may use CUDA graphs. Without them launches take longer, and a
        capture may end on any thread.
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
        """Return the options of a command whose user may give a number of steps, or seconds.

        Where the user gives neither, the window has `DEFAULT_STEPS` steps and lasts at least
        `DEFAULT_DURATION_S` seconds.
        """
        if steps is None and seconds is None:
            return cls(steps=DEFAULT_STEPS, lasting=DEFAULT_DURATION_S, **others)
        return cls(steps=steps, seconds=seconds, **others)

    def find_problem(self) -> str | None:
        """Return a sentence on what makes these options impossible, or None."""
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
    """Instructions that the launcher reads in the script's process.

    script, argv: the script (or module) and its arguments.
    logdir: local log directory in which the profile is written.
    shown_logdir: log directory as the user gave it, for messages.
    outcome: path at which the launcher writes the `ScriptOutcome`.
    options: options of the capture.
    questions: folder through which the launcher requests the analysis of a profile; "" where no
        process answers.
    """

    script: str
    argv: tuple[str, ...]
    logdir: str
    shown_logdir: str
    outcome: str
    options: CaptureOptions
    questions: str = ""

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan from the text that `to_json` returned."""
        data: dict[str, Any] = json.loads(text)
        data["options"] = CaptureOptions(**data["options"])
        data["argv"] = tuple(data["argv"])
        return cls(**data)


@dataclass(frozen=True)
class AnalysisRequest:
    """Request of the script's process to the waiting command: find the repeated work in a profile.

    profile: path of the profile.
    number: number of the request, which the name of the response file carries.
    """

    profile: str
    number: int

    def to_json(self) -> str:
        """Return the request as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> AnalysisRequest:
        """Return the request from the text that `to_json` returned."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class ProgramRuns:
    """Runs of one compiled program in one profile.

    XLA counts the runs of each program, so that the run ids in two profiles tell how many runs lie
    between them.

    first, last: run ids of the first and of the last run.
    first_ns, last_ns: start times of those two runs, ns since the profile began.
    rounds: number of rounds in which the program ran.
    per_round: average number of its runs per round; 0 where it ran in fewer than two rounds.
    """

    first: int
    first_ns: int
    last: int
    last_ns: int
    rounds: int = 0
    per_round: float = 0.0

    def find_same_program(self, others: Iterable[ProgramRuns]) -> ProgramRuns | None:
        """Return the first entry of `others` that can hold later runs of this program, or None.

        Its run ids must follow this program's by at most `MAX_RUN_GAP`.
        """
        return next((runs for runs in others if 0 < runs.first - self.last <= MAX_RUN_GAP), None)

    @property
    def cycle_ns(self) -> float:
        """Average time from the start of one round to the start of the next, ns; 0 where only one
        run was seen.
        """
        return (self.last_ns - self.first_ns) * self.per_round / (self.last - self.first) if self.last > self.first else 0.0


@dataclass(frozen=True)
class Repetition:
    """Repeated work that was found in a profile. A round is one repetition, as a rule one training
    step.

    rounds: number of whole rounds in the profile.
    seconds: average duration of a round.
    events: number of events of all threads in the profile.
    density: events per second; 0 where the duration of the profile is not known.
    what: name of the function that the rounds call.
    trains: whether the rounds compute gradients.
    predicts: whether the rounds are predictions by their name.
    busy: whether the framework did anything.
    once: share of the time of all rounds that one outlier took: a round that is much longer than
        the others and the only one of its kind; 0 without one.
    why: how the rounds were found, or why there are none.
    next: function that trains after the last round and in none of the rounds; "" without one.
    runs: runs of each compiled program, the program of most rounds first.
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
        """Return a copy for a profile of `seconds`, with what was observed while it was recorded: a
        busy device (`is_busy`), and a gradient that was computed op by op (`has_gradients`).
        """
        density = self.events / seconds if seconds > 0 else 0.0
        return dataclasses.replace(self, density=density, busy=self.busy or is_busy, trains=self.trains or has_gradients)

    def seconds_for(self, events: int) -> float:
        """Return the time in which the program makes this number of events, seconds; infinity where
        the density is not known.
        """
        return events / self.density if self.density else math.inf

    def to_json(self) -> str:
        """Return the repetition as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Repetition:
        """Return the repetition from the text that `to_json` returned."""
        data: dict[str, Any] = json.loads(text)
        return cls(**{**data, "runs": tuple(ProgramRuns(**runs) for runs in data["runs"])})


@dataclass(frozen=True)
class ScriptOutcome:
    """Result that the launcher writes for the waiting command.

    run, host: saved run folder and the host's name in it; None where nothing was saved.
    reason: why nothing was saved.
    stopped: whether the script was ended after its capture.
    exit_code: the script's exit code.
    ending: whether the script and its exit handlers have finished; only the interpreter's own
        shutdown is left.
    failure: text of the exception that the script ended with; "" without one.
    program: where memory ran out, the largest program (`HloProto` in base 64); else "".
    """

    run: str | None = None
    host: str | None = None
    reason: str | None = None
    stopped: bool = False
    exit_code: int | None = None
    ending: bool = False
    failure: str = ""
    program: str = ""

    def to_json(self) -> str:
        """Return the outcome as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ScriptOutcome:
        """Return the outcome from the text that `to_json` returned."""
        return cls(**json.loads(text))

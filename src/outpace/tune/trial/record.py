"""What a race leaves behind: samples, trials, verdicts, and the experiment that holds all of them."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from outpace._dataclass import dataclass
from outpace.capture.notes import granted_cpus
from outpace.tune.trial.protocol import Protocol
from outpace.tune.trial.statistics import Estimate


class Phase(str, Enum):
    """What a sample is for. The published ratio of a difference comes from CONFIRM alone."""

    SEARCH = "search"
    CONFIRM = "confirm"


class Decision(str, Enum):
    """What a race says of one arm against the baseline."""

    FASTER = "faster"
    SAME = "no difference"
    SLOWER = "slower"
    SEEMS_FASTER = "seems faster"  # in a race that only screens
    SEEMS_SLOWER = "seems slower"
    REFUSED = "inconclusive"
    UNSAFE = "unsafe"
    UNPROVEN = "no effect proven"
    FAILED = "failed"

    @classmethod
    def _missing_(cls, value: object) -> Decision | None:
        return cls.REFUSED if value == "refused" else None  # the word of older records


@dataclass(frozen=True)
class Sample:
    """One block: `steps` steps of an arm took `seconds`.

    `round` counts from 0 within a phase and stage; the stage grows when blocks were too short and the search began again. `order` is the
    block's place in its round, `when` the seconds from the race's start to the block's. cpu: processor time that the process took
    meanwhile, all threads, in seconds; None where that is not known.
    """

    arm: str
    phase: Phase
    stage: int
    round: int
    order: int
    steps: int
    seconds: float
    when: float
    cpu: float | None = None


@dataclass(frozen=True)
class Trial:
    """One arm's story apart from its samples.

    first_seconds: from preparing to the end of the first step (building, tracing, compiling); None if it never got there.
    warmup_seconds, warmup_steps: what ran untimed after that. failure: why the arm left, or None. dropped: the round after which the
    search let it go as too slow, or None. proof: evidence that the change took effect; `asked` says whether there was a question.
    objection: what the arm's own check says against using it.
    """

    arm: str
    what: str = ""
    risk: str = "exact"
    step: str = "one call"
    examples: float | None = None
    first_seconds: float | None = None
    warmup_seconds: float = 0.0
    warmup_steps: int = 0
    dropped: int | None = None
    failure: str | None = None
    asked: bool = False
    proof: str | None = None
    objection: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What the race says of one arm: the ratio of its rate to the baseline's with its 95% CI, and why.

    estimate: None where fewer than two rounds were run. confirmed: whether it comes from fresh rounds. control: the baseline against
    itself in the same rounds. rate: steps (or examples) per second, the median of the same rounds' blocks. break_even_steps: after how
    many steps a longer first call has paid for itself; None when it never does or needs not.
    """

    arm: str
    decision: Decision
    reason: str
    estimate: Estimate | None
    control: Estimate | None
    confirmed: bool
    rate: float | None
    first_seconds: float | None
    break_even_steps: int | None


@dataclass(frozen=True)
class Environment:
    """Where and when a race ran. `load` is the number of runnable processes (one-minute mean) before and after, where the system says."""

    started: str
    machine: str
    cores: int
    python: str
    load: tuple[float, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls) -> Environment:
        """This machine, now."""
        return cls(
            started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            machine=f"{platform.system()} {platform.machine()}, {processor()}",
            cores=granted_cpus(),
            python=platform.python_version(),
            load=load(),
        )


def load() -> tuple[float, ...]:
    """The one-minute load mean as a tuple of one, empty where the system has none."""
    try:
        return (round(os.getloadavg()[0], 2),)
    except OSError:
        return ()


def processor() -> str:
    """The processor's name as Linux gives it, else what Python knows."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


@dataclass(frozen=True)
class Experiment:
    """A whole race: everything needed to check its verdicts.

    `plan` holds, for each arm whose difference was to be confirmed, the number of fresh rounds fixed before the first of them.
    `baseline` and `again` are the names of the baseline and of its second self; `blocks` the block lengths of the stages, in seconds.
    `sources` are what the arms were made of, where that is a file or a command.
    """

    baseline: str
    again: str
    protocol: Protocol
    budget: float
    seed: int
    environment: Environment
    trials: tuple[Trial, ...]
    samples: tuple[Sample, ...]
    plan: Mapping[str, int]
    blocks: tuple[float, ...]
    seconds: float
    interrupted: bool = False
    verdicts: tuple[Verdict, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def trial(self, arm: str) -> Trial:
        """The trial of one arm; KeyError where there is none of that name."""
        for trial in self.trials:
            if trial.arm == arm:
                return trial
        raise KeyError(arm)

    def verdict(self, arm: str) -> Verdict:
        """The verdict on one arm; KeyError for the baseline and unknown names."""
        for verdict in self.verdicts:
            if verdict.arm == arm:
                return verdict
        raise KeyError(arm)

    def reference(self, phase: Phase) -> dict[int, float]:
        """What arms are compared with: the geometric mean of the baseline's two blocks of a round.

        Two blocks are no more biased than one, and a comparison needs a quarter fewer rounds.
        """
        base, again = self.rates(self.baseline, phase), self.rates(self.again, phase)
        return {at: math.sqrt(base[at] * again[at]) for at in base.keys() & again.keys()}

    def cpu(self, arm: str, phase: Phase) -> dict[int, float]:
        """Processor seconds per step of an arm's blocks by round, where they are known; those of the phase's last stage."""
        stage = self.stage(phase)
        return {
            s.round: s.cpu / s.steps
            for s in self.samples
            if s.arm == arm and s.phase is phase and s.stage == stage and s.cpu is not None and s.steps
        }

    @property
    def winner(self) -> str:
        """Name of the arm with the highest confirmed ratio, the baseline where none is faster."""
        won = [v for v in self.verdicts if v.decision is Decision.FASTER and v.estimate is not None]
        return max(won, key=lambda v: v.estimate.ratio if v.estimate else 0.0).arm if won else self.baseline

    def stage(self, phase: Phase) -> int:
        """The last stage that a phase reached: the one that counts."""
        return max((s.stage for s in self.samples if s.phase is phase), default=0)

    def rates(self, arm: str, phase: Phase) -> dict[int, float]:
        """Rates of an arm's blocks by round, in what the protocol counts, per second; those of the phase's last stage."""
        stage = self.stage(phase)
        weight = (self.trial(arm).examples or 1.0) if self.protocol.per.value == "example" else 1.0
        return {
            s.round: s.steps * weight / s.seconds
            for s in self.samples
            if s.arm == arm and s.phase is phase and s.stage == stage and s.seconds > 0
        }

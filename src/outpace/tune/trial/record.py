# SPDX-License-Identifier: Apache-2.0
"""What a race is asked for (`Protocol`, the constants in one place) and what it gave
(`Experiment`): plain data, which JSON lines hold: one header, then one line per trial, sample and
verdict. What is read back equals what was written.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import time
import typing
from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum
from pathlib import Path
from statistics import median
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.record import available_cpus
from outpace.model.codec import decode, encode
from outpace.model.errors import NotFoundError, UsageError
from outpace.model.files import parse_json, write_atomically
from outpace.model.input_files import RACE, read_file
from outpace.stats.ratios import Estimate

_LITTLE = 0.02  # of the time of steps, that may lie between them without being known well
_FEWEST_ENDS = 8  # ends of epochs by which the time between steps is known
AGAIN = "baseline again (A/A)"  # the baseline of one instance, the second time in a round


class Per(str, Enum):
    """What rates count."""

    STEP = "step"
    EXAMPLE = "example"


@dataclass(frozen=True)
class Protocol:
    """How a race is run.

    search, confirm: whether the race has both parts. Without a confirmation it only screens: what
    differs "seems" to. Without a search every
        arm is confirmed, for arms that earlier races have found.
    effect: smallest difference that is called one, as a fraction. Finding 3% takes minutes on a
    noisy machine, 10% seconds. block_seconds: length of a block. Noise of a shared machine is
    drift, which short paired blocks cancel: at 0.1 s a comparison needed
        a half to a fifth of the time that unpaired blocks need, at 1 s several times as much.
        `block_steps` is the least number of steps.
    warmup_seconds: untimed, after the first call (at most a twentieth of the budget). looks: rounds
    after which the search may drop arms or stop; `drop_after` is the first for dropping,
    `least_rounds` for anything else.
        Few looks at a stricter interval (99%) keep repeated looking from finding differences that
        are not there.
    few_rounds: rounds that tell of a difference which is larger than `large` by that stricter
    interval: slow steps pay for no more. drop_below: an arm leaves the search when its upper end
    (95%) is below this ratio. search_share: part of the budget that the search may use; the rest
    belongs to the confirmation. search_rounds: rounds of the search, at most. confirm_rounds: fresh
    rounds of a confirmation, at least. How many, of how many instances, is fixed before the first
    of them. fresh_rounds: rounds of a race without a search, at most. power: how often a true
    difference of the planned size shall be confirmed, as a quantile of the normal distribution
    (1.28: 90%). blind: an interval that reaches farther than this from 1 is too wide to say "no
    difference". bias_share: where the baseline differs from itself, a claim must be at least 1 /
    bias_share times as large as that difference can be;
        as large, where the race only screens.
    alive: how many prepared arms there may be at once (0: all). With fewer than all instances the
    race has no search, and the budget holds
        the starts, too.
    processes: whether each arm is a process of its own. Then what processes of one text differ by
    is in every interval, also where one of each ran, and a claim needs the stricter interval, which
    excludes whatever is smaller than `effect`.
    """

    search: bool = True
    confirm: bool = True
    effect: float = 0.03
    block_seconds: float = 0.15
    block_steps: int = 3
    warmup_seconds: float = 1.0
    looks: tuple[int, ...] = (4, 6, 8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 450, 675, 1000)
    drop_after: int = 6
    least_rounds: int = 8
    few_rounds: int = 4
    large: float = 0.25
    drop_below: float = 0.97
    search_share: float = 0.5
    search_rounds: int = 1_000_000
    confirm_rounds: int = 20
    fresh_rounds: int = 60
    power: float = 1.28
    blind: float = 0.10
    bias_share: float = 0.25
    alive: int = 0
    processes: bool = False
    per: Per = Per.STEP


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
    FAILED = "failed"

    @classmethod
    def _missing_(cls, value: object) -> Decision | None:
        return cls.REFUSED if value in ("refused", "unsafe", "no effect proven") else None  # words of older records


@dataclass(frozen=True)
class Sample:
    """One block: `steps` steps of an arm took `seconds`.

    `round` counts from 0 within a phase. `order` is the block's place in its round, `when` the
    seconds from the race's start to the block's. cpu: processor time that the process took
    meanwhile, all threads, in seconds; None where that is not known. between: seconds that lay
    between the steps, such as ends of epochs and validations, which are not in `seconds`. ends: how
    many of these there were.
    """

    arm: str
    phase: Phase
    round: int
    order: int
    steps: int
    seconds: float
    when: float
    cpu: float | None = None
    between: float = 0.0
    ends: int = 0


@dataclass(frozen=True)
class Trial:
    """One arm's story apart from its samples.

    first_seconds: from preparing to the end of the first steps (building, tracing, compiling); None
    if it never got there. first_steps: how many these were. warmup_seconds, warmup_steps: what ran
    untimed after that. failure: why the arm left, or None. dropped: the round after which the
    search let it go as too slow, or None. treatment: what the arm is one instance of, "" for itself
    alone.
    """

    arm: str
    step: str = "one call"
    examples: float | None = None
    first_seconds: float | None = None
    first_steps: int = 1
    warmup_seconds: float = 0.0
    warmup_steps: int = 0
    dropped: int | None = None
    failure: str | None = None
    treatment: str = ""


@dataclass(frozen=True)
class Verdict:
    """What the race says of one arm, or of a treatment with the name of its first: the ratio of its
    rate to the baseline's with its 95% CI, and why.

    estimate: None where fewer than two rounds were run. confirmed: whether it comes from fresh
    rounds. control: the baseline against itself in the same rounds, None where processes are
    compared: what they differ by is in the interval. rate: steps (or examples) per second,
    the median of the same rounds' blocks. break_even_steps: after how many steps a longer first
    call has paid for itself; None when it never does or needs not.
    """

    arm: str
    decision: Decision
    reason: str
    estimate: Estimate | None
    control: Estimate | None
    confirmed: bool
    rate: float | None
    break_even_steps: int | None


@dataclass(frozen=True)
class Environment:
    """Where and when a race ran. `load` is the number of runnable processes (one-minute mean)
    before and after, where the system says.
    """

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
            cores=available_cpus(),
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

    `plan` holds, for each arm whose difference was to be confirmed, the number of fresh rounds
    fixed before the first of them. `sources` are what the arms were made of, where that is a file
    or a command.
    """

    baseline: str
    protocol: Protocol
    budget: float
    seed: int
    environment: Environment
    trials: tuple[Trial, ...]
    samples: tuple[Sample, ...]
    plan: Mapping[str, int]
    seconds: float
    interrupted: bool = False
    verdicts: tuple[Verdict, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def instances(self, treatment: str) -> tuple[str, ...]:
        """Names of the arms that are instances of a treatment, as they were started; the baseline's
        second time is one.
        """
        return tuple(trial.arm for trial in self.trials if (trial.treatment or trial.arm) == treatment)

    def processes(self, treatment: str) -> tuple[str, ...]:
        """The same without a second time."""
        return tuple(name for name in self.instances(treatment) if name != AGAIN)

    @property
    def compared(self) -> tuple[Trial, ...]:
        """The first trials of all treatments, the baseline's among them."""
        return tuple(trial for trial in self.trials if trial.treatment in ("", trial.arm))

    def trial(self, arm: str) -> Trial:
        """The trial of one arm; KeyError where there is none of that name."""
        return {trial.arm: trial for trial in self.trials}[arm]

    def verdict(self, arm: str) -> Verdict:
        """The verdict on one arm; KeyError for the baseline and unknown names."""
        return {verdict.arm: verdict for verdict in self.verdicts}[arm]

    def reference(self, phase: Phase) -> dict[int, float]:
        """What arms are compared with: the geometric mean of the baseline's blocks of a round, in
        which it has two at least.

        Two blocks are no more biased than one, and a comparison needs a quarter fewer rounds.
        """
        return self.together(self.baseline, phase)

    def itself(self, phase: Phase) -> tuple[dict[int, float], dict[int, float]]:
        """Rates of the baseline's first two instances."""
        first, second = (*self.instances(self.baseline), self.baseline)[:2]
        return self.rates(first, phase), self.rates(second, phase)

    def together(self, treatment: str, phase: Phase) -> dict[int, float]:
        """The geometric mean of the rates of a treatment's instances by round, of those that ran in
        it.
        """
        logs: dict[int, list[float]] = {}
        for name in self.instances(treatment):
            for at, rate in self.rates(name, phase).items():
                logs.setdefault(at, []).append(math.log(rate))
        return {at: math.exp(math.fsum(each) / len(each)) for at, each in sorted(logs.items())}

    def cpu(self, arm: str, phase: Phase) -> dict[int, float]:
        """Processor seconds per step of an arm's blocks by round, where they are known."""
        blocks = (s for s in self.samples if s.arm == arm and s.phase is phase)
        return {s.round: s.cpu / s.steps for s in blocks if s.cpu is not None and s.steps}

    def of_run(self, arm: str, steps: int) -> float | None:
        """How many times as fast a run of so many steps is with an arm, from the first call on;
        None where that or the rate is not known.

        The first call may trace or compile, and what ran untimed after it fills caches and buffers:
        both take what they took. So does what lies between steps, in the mean of all blocks: where
        that is much, and too few ends of epochs were seen, nothing is known.
        """
        times = [self._of_run(name, steps) for name in (self.baseline, arm)]
        return None if times[0] is None or times[1] is None else times[0] / times[1]

    def _of_run(self, arm: str, steps: int) -> float | None:
        """Seconds of it, of the quickest start of an arm's processes: the first of all pays for
        what is done once.
        """
        phase = Phase.CONFIRM if self.together(arm, Phase.CONFIRM) else Phase.SEARCH
        rates = self.together(arm, phase).values()
        blocks = [s for s in self.samples if s.phase is phase and s.arm in self.instances(arm)]
        starts = []
        for trial in map(self.trial, self.instances(arm)):
            if trial.first_seconds is not None and trial.first_steps <= steps:  # shorter runs did not end by themselves
                more = steps - trial.first_steps
                untimed = min(1.0, more / trial.warmup_steps) * trial.warmup_seconds if trial.warmup_steps else 0.0
                starts.append((trial.first_seconds + untimed, max(more - trial.warmup_steps, 0)))
        if not starts or not rates:
            return None
        between, seconds = math.fsum(s.between for s in blocks), math.fsum(s.seconds for s in blocks)
        if between > _LITTLE * seconds and sum(s.ends for s in blocks) < _FEWEST_ENDS:  # chance decides how many were seen
            return None
        between /= sum(s.steps for s in blocks)
        return min(start + left * (1 / median(rates) + between) for start, left in starts)

    @property
    def winner(self) -> str:
        """Name of the arm with the highest confirmed ratio, the baseline where none is faster."""
        won = [v for v in self.verdicts if v.decision is Decision.FASTER and v.estimate is not None]
        return max(won, key=lambda v: v.estimate.ratio if v.estimate else 0.0).arm if won else self.baseline

    def rates(self, arm: str, phase: Phase) -> dict[int, float]:
        """Rates of an arm's blocks by round, in what the protocol counts, per second."""
        weight = (self.trial(arm).examples or 1.0) if self.protocol.per is Per.EXAMPLE else 1.0
        blocks = (s for s in self.samples if s.arm == arm and s.phase is phase)
        return {s.round: s.steps * weight / s.seconds for s in blocks if s.seconds > 0}


VERSION = 1
_ROWS: dict[str, tuple[str, type]] = {
    "trial": ("trials", Trial),
    "sample": ("samples", Sample),
    "verdict": ("verdicts", Verdict),
}


def lines_of(experiment: Experiment) -> Iterator[str]:
    """The lines of a record, without line ends."""
    rows = {name for name, _ in _ROWS.values()}
    header = {each.name: getattr(experiment, each.name) for each in dataclasses.fields(experiment) if each.name not in rows}
    yield json.dumps({"kind": "experiment", "version": VERSION, **encode(header)}, ensure_ascii=False)
    for kind, (name, _) in _ROWS.items():
        for row in getattr(experiment, name):
            yield json.dumps({"kind": kind, **encode(row)}, ensure_ascii=False)


def write_experiment(experiment: Experiment, path: str | os.PathLike[str]) -> Path:
    """Write a record, whole or not at all; OutputError where that is not possible."""
    with write_atomically(path, "The record") as file:
        file.write("".join(f"{line}\n" for line in lines_of(experiment)).encode("utf-8"))
    return Path(path)


def read_experiment(path: str | os.PathLike[str]) -> Experiment:
    """The experiment of a record. Raises NotFoundError where there is none, UsageError where the
    file is something else.
    """
    try:
        text = read_file(path, RACE).decode("utf-8")
    except OSError as error:
        raise NotFoundError(f"There is no record {path} ({error.strerror}). A race writes one with --out FILE.") from error
    except UnicodeDecodeError as error:
        raise UsageError(_no_record(path, "it is no text")) from error
    try:
        rows = [parse_json(line) for line in text.splitlines() if line.strip()]
        return _experiment(rows)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(_no_record(path, str(error) or type(error).__name__)) from error


def _no_record(path: object, why: str) -> str:
    return f"{path} is no record of a race that this version reads ({why}). Give a file that 'outpace race --out' wrote."


def _experiment(rows: list[dict[str, Any]]) -> Experiment:
    header = dict(rows[0])
    if header.pop("kind", None) != "experiment" or header.pop("version", None) != VERSION:
        raise ValueError("its first line is no header")
    found: dict[str, list[Any]] = {name: [] for name, _ in _ROWS.values()}
    for row in _of_old(header, rows[1:]):
        values = dict(row)
        name, kind = _ROWS[values.pop("kind")]
        found[name].append(decode(kind, values))
    return typing.cast(Experiment, decode(Experiment, {**header, **found}))


def _of_old(header: Mapping[str, Any], rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows as they are written today: older races began again with longer blocks, and then only the
    last stage's counted; the second time of the baseline was named in the header.
    """
    last = {row["phase"]: row["stage"] for row in rows if "stage" in row}
    for row in rows:
        if row.get("stage") == last.get(row.get("phase")):
            second = row["kind"] == "trial" and row["arm"] == header.get("again")
            yield {**row, "treatment": header["baseline"]} if second else row

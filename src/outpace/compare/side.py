"""One side of a comparison: some captures of one program, its parts by step, and the facts that two sides must share to be compared."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import once
from outpace.compare.evidence import Machine, machine_of
from outpace.compare.facts import apart, facts_of, joined, other_programs
from outpace.compare.means import BETWEEN, Mean, combined, mean_in
from outpace.compare.pairs import Part as Part
from outpace.compare.pairs import pairs
from outpace.compare.sampled import Line, lines_of
from outpace.metrics.input.iterators import is_async
from outpace.metrics.machine.core_use import DIVIDED
from outpace.metrics.model.op_metrics import DEVICE, HOST
from outpace.metrics.model.op_steps import INPUT as _INPUT
from outpace.metrics.model.op_steps import op_steps
from outpace.metrics.program.host_time import WAITING, without_ops
from outpace.metrics.program.same_program import main_program
from outpace.metrics.program.step_breakdown import StepBreakdown, step_breakdown
from outpace.model import Category, UsageError
from outpace.model.arrays import Values
from outpace.model.units import counted
from outpace.timeline import Run

PYTHON, DENSE, ELEMENTWISE = "Python and gaps", "dense ops", "other ops"
INPUT, COPIES, ON_DEVICE = "input", "copies", "device"
"""Classes of work: what a busy or another machine changes by one factor."""

_COPIES = re.compile(r"Memcpy|copy|_Send|_Recv|HostRecv|HostSend", re.IGNORECASE)
_COLLECTIVE = re.compile(r"Collective|all.?reduce|all.?gather|reduce.?scatter|all.?to.?all|nccl|rccl", re.IGNORECASE)
_BESIDE = (Category.ALL_OTHERS, Category.COMPILATION)  # what no op stands for
BESIDE = "Step"
SHORT_OPS: Part = (HOST, "", "short ops and the executor")
OF_INPUT = _INPUT  # stages of the input pipeline, and what runs in them
SIDES = frozenset((HOST, DEVICE, OF_INPUT, BESIDE))  # where parts run
_NANOSECOND = 1000  # ps


@dataclass(frozen=True, eq=False)
class Capture:
    """parts: times of every part in every steady training step, ps; steps: of the steps themselves; categories: likewise. lines: of Python,
    where it was sampled. short: parts whose time may be told as that of others of them. machine: what is known of it from outside. hosts: the
    host of each step; empty where there is one."""

    parts: dict[Part, Values]
    steps: Values
    categories: dict[Category, Values]
    lines: tuple[Line, ...] = ()
    short: frozenset[Part] = frozenset()
    machine: Machine = field(default_factory=Machine)
    hosts: tuple[str, ...] = ()

    def of_host(self, host: str) -> Capture:
        """What it holds of one of its hosts; lines of Python are those of all."""
        mine = np.array(self.hosts) == host
        parts = {part: times[mine] for part, times in self.parts.items() if times[mine].any()}
        categories = {category: times[mine] for category, times in self.categories.items()}
        return replace(self, parts=parts, steps=self.steps[mine], categories=categories, lines=(), hosts=())


@dataclass(frozen=True, eq=False)
class Side:
    """name: what people call it. captures: of one program, each with a step or more. facts: what the sides should share, in words; those of the
    first capture, since all of one side share them, and what any of them has lost."""

    name: str
    captures: tuple[Capture, ...]
    facts: Mapping[str, str]

    @classmethod
    def of(cls, name: str, *runs: Run) -> Side:
        """The side whose captures are these runs. Raises UsageError for one without a step, and for runs that belong to different sides."""
        return cls.joined(name, [cls(run.source, (_capture(run),), facts_of(run)) for run in runs])

    @classmethod
    def joined(cls, name: str, sides: Sequence[Side]) -> Side:
        """The captures of several as those of one. Raises UsageError where they have not in common what a side has, or are there twice."""
        first = sides[0]
        for side in sides:
            differ = apart(first.facts, side.facts)
            differ += [each.name for each in other_programs(first.facts, side.facts, shared(first, side))]
            if differ:
                raise UsageError(
                    f"{first.name} and {side.name} are no captures of one side: they differ in {', '.join(differ)}."
                )
        captures = tuple(capture for side in sides for capture in side.captures)
        if len({capture.steps.tobytes() for capture in captures}) < len(captures):
            raise UsageError(f"A capture of {name} is given twice, and would count as two. Give each once.")
        return cls(name, captures, joined([side.facts for side in sides]))

    @once
    def parts(self) -> tuple[Part, ...]:
        """All parts of all captures, in the order in which they were met."""
        return tuple(dict.fromkeys(part for capture in self.captures for part in capture.parts))

    def times(self, part: Part) -> list[Values]:
        """A part's times by capture; zeros where a capture has none of it."""
        return [capture.parts.get(part, np.zeros(len(capture.steps))) for capture in self.captures]

    def means(self, part: Part) -> list[float]:
        """The mean of a part's times in each capture, ps."""
        return [value for value, _ in self._means(self.times(part))]

    def mean(self, part: Part) -> Mean:
        """The mean of a part's times, ps per step."""
        return self._mean(self.times(part))

    def mean_of(self, category: Category) -> Mean:
        """The mean of a category's times, ps per step."""
        return self._mean([capture.categories[category] for capture in self.captures])

    def _mean(self, times: Sequence[Values]) -> Mean:
        return combined(self._means(times), self.between)

    def _means(self, times: Sequence[Values]) -> list[tuple[float, float]]:
        """Of each capture the mean of some times of its steps, with its error."""
        return [mean_in(each, capture.hosts) for each, capture in zip(times, self.captures, strict=True)]

    @property
    def short(self) -> frozenset[Part]:
        """Parts that are short in one of the captures."""
        return frozenset[Part]().union(*(capture.short for capture in self.captures))

    def joining(self, short: Set[Part]) -> Side:
        """The same side, in which the short parts are one."""
        return replace(self, captures=tuple(_joining(capture, short) for capture in self.captures)) if short else self

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that all captures have, in order; none where there is one."""
        first = tuple(dict.fromkeys(self.captures[0].hosts))
        return first if all(tuple(dict.fromkeys(each.hosts)) == first for each in self.captures) else ()

    def of_host(self, host: str) -> Side:
        """One of its hosts as a side."""
        return replace(self, name=host, captures=tuple(each.of_host(host) for each in self.captures))

    @property
    def step_times(self) -> list[float]:
        """The mean step time of each capture, ps."""
        return [mean_in(capture.steps, capture.hosts)[0] for capture in self.captures]

    @property
    def step(self) -> Mean:
        """The step time, ps."""
        return self._mean([capture.steps for capture in self.captures])

    @property
    def reported(self) -> float:
        """The mean of all steady steps, which reports call the step time, ps: a comparison trims it, so that single steps decide nothing."""
        return float(np.mean([capture.steps.mean() for capture in self.captures]))

    @property
    def between(self) -> float:
        """Prior sd of the log of a mean, from capture to capture."""
        return BETWEEN[self.on_device]

    @property
    def steps(self) -> int:
        """How many steps all captures hold."""
        return sum(len(capture.steps) for capture in self.captures)

    @property
    def amount(self) -> str:
        """How much there is of it: `48 steps of 3 captures`."""
        return counted(self.steps, "step") + (f" of {len(self.captures)} captures" if len(self.captures) > 1 else "")

    @property
    def on_device(self) -> bool:
        """Whether devices work in its steps."""
        return any(part[0] == DEVICE for part in self.parts)


def shared(before: Side, after: Side) -> float:
    """The share of the faster side's time that parts hold which both sides have."""
    fast, at = min((before, 0), (after, 1), key=lambda each: each[0].step.value)
    there = [set(side.parts) for side in (before, after)]
    times = {pair: sum(float(times.mean()) for times in fast.times(pair[at])) for pair in pairs(before.parts, after.parts)}
    whole = sum(times.values())
    return (
        sum(time for (here, other), time in times.items() if here in there[0] and other in there[1]) / whole if whole else 0.0
    )


def class_of(part: Part) -> str:
    """The class of work that a part belongs to."""
    side, kind, _ = part
    if side == BESIDE:
        return PYTHON
    if side == OF_INPUT:
        return INPUT
    if _COPIES.search(kind):
        return COPIES
    if side == DEVICE:
        return ON_DEVICE
    return DENSE if DIVIDED.match(kind) else ELEMENTWISE


def _capture(run: Run) -> Capture:
    found, breakdown = op_steps(run), step_breakdown(run).of(*main_program(run))
    steps = _whole(found.step_ps)
    if not len(steps) or not steps.all():
        raise UsageError(f"No step was found in {run.source}, so that there is nothing to compare. 'outpace report' says why.")
    per_row = np.array([breakdown.per_row[host] for host in breakdown.whole["host"].tolist()], np.float64)
    categories = {each: _whole(breakdown.category(each) / per_row) for each in Category}
    parts = {op: _whole(found.time_ps[row]) for row, op in enumerate(found.ops) if not (op[0] == OF_INPUT and _waits(op))}
    parts |= {(BESIDE, each.label, each.label): categories[each] for each in _BESIDE}
    parts |= {(BESIDE, part, part): _whole(times) for part, times in _without_ops(run, breakdown.per_row).items()}
    parts = {part: times for part, times in parts.items() if times.any()}
    short, machine = found.short & parts.keys(), machine_of(run, main_program(run))
    return Capture(parts, steps, categories, lines_of(run), short, machine, _hosts(run, breakdown))


def _hosts(run: Run, breakdown: StepBreakdown) -> tuple[str, ...]:
    """The host of each steady step, in the order of `op_steps`."""
    hosts = main_program(run)
    counts = [int(breakdown.counted[breakdown.steps["host"] == host].sum()) for host in hosts]
    return tuple(host for host, count in zip(hosts, counts, strict=True) for _ in range(count)) if len(hosts) > 1 else ()


def _without_ops(run: Run, per_row: Mapping[str, int]) -> dict[str, Values]:
    """What hosts of the main program compute in a training step while no op runs, ps."""
    found: dict[str, list[Values]] = {}
    for host in main_program(run):
        for part, times in without_ops(run, host).items():
            found.setdefault(part, []).append(times / per_row[host])
    return {part: np.concatenate(times) for part, times in found.items()}


def _joining(capture: Capture, short: Set[Part]) -> Capture:
    parts = {part: times for part, times in capture.parts.items() if part not in short}
    joined = [times for part, times in capture.parts.items() if part in short]
    return replace(capture, parts=parts | {SHORT_OPS: np.asarray(sum(joined), np.float64)} if joined else parts)


def _whole(times: Values) -> Values:
    """In nanoseconds, as profilers count: what is divided among threads and devices is no whole number of anything."""
    return np.asarray(np.rint(times / _NANOSECOND) * _NANOSECOND, np.float64)


def waits(part: Part) -> bool:
    """Whether it is waiting for other hosts: in a collective, or for results that come of one."""
    return part[2] == WAITING or bool(_COLLECTIVE.search(part[1]))


def _waits(part: Part) -> bool:
    """Whether it is a stage of an input pipeline that waits for what other threads make, where it is called."""
    stage = part[2].rpartition("::")[2]
    return part[1] == "Dataset" and (stage == "Root" or is_async(stage))

# SPDX-License-Identifier: Apache-2.0
"""One side of a comparison: captures of one program, the times of its parts by step, and the facts
that two sides must share to be compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace

import numpy as np

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.compare.evidence import Machine, compute_machine
from outpace.compare.facts import compute_facts, find_conflicts, find_program_difference, merge_facts
from outpace.compare.line_work import LineWork, compute_line_work
from outpace.compare.pairs import PartKey as PartKey
from outpace.compare.pairs import pair_parts
from outpace.compare.sampled_lines import SampledLine, compute_sampled_lines
from outpace.metrics.cluster.op_step_times import INPUT_SIDE as _INPUT
from outpace.metrics.cluster.op_step_times import op_step_times
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.input_iterators import is_async_stage
from outpace.metrics.facts.op_metrics import DEVICE, HOST
from outpace.metrics.facts.step_breakdown import StepBreakdown, step_breakdown
from outpace.metrics.views.core_use import MULTITHREADED_OPS
from outpace.metrics.views.host_time import WAITING, time_without_ops
from outpace.model import Category, UsageError
from outpace.model.arrays import Values
from outpace.model.units import format_count
from outpace.stats.means import CAPTURE_LOG_SD, Mean, combine_means, mean_with_error
from outpace.timeline import Run

PYTHON, DENSE, ELEMENTWISE = "Python and gaps", "dense ops", "other ops"
INPUT, COPIES, ON_DEVICE = "input", "copies", "device"
"""Classes of work, each of which a busy or another machine changes by one factor."""

_COPIES = compile_lazily(r"Memcpy|copy|_Send|_Recv|HostRecv|HostSend", re.IGNORECASE)
_COLLECTIVE = compile_lazily(r"Collective|all.?reduce|all.?gather|reduce.?scatter|all.?to.?all|nccl|rccl", re.IGNORECASE)
_TIME_WITHOUT_OPS = (Category.ALL_OTHERS, Category.COMPILATION)  # categories of time without an op
STEP_SIDE = "Step"
SHORT_OPS: PartKey = (HOST, "", "short ops and the executor")
INPUT_PIPELINE = _INPUT  # location of stages of the input pipeline and of the work in them
LOCATIONS = frozenset((HOST, DEVICE, INPUT_PIPELINE, STEP_SIDE))  # locations in which parts run
_NANOSECOND = 1000  # ps


@dataclass(frozen=True, eq=False)
class CaptureTimes:
    """Times of one capture.

    part_ps: time of every part in every steady training step, ps
    step_ps: time of each steady step, ps
    category_ps: time of each category in each steady step, ps
    lines: sampled lines of Python; empty where the capture was not sampled
    short_parts: parts whose time may be merged with that of other short parts
    machine: evidence about the machine from outside the program
    hosts: the host of each step; empty where there is one host
    line_work: work of compiled lines; empty where no op of a program ran, and in baselines
    """

    part_ps: dict[PartKey, Values]
    step_ps: Values
    category_ps: dict[Category, Values]
    lines: tuple[SampledLine, ...] = ()
    short_parts: frozenset[PartKey] = frozenset()
    machine: Machine = field(default_factory=Machine)
    hosts: tuple[str, ...] = ()
    line_work: tuple[LineWork, ...] = ()

    def select_host(self, host: str) -> CaptureTimes:
        """Return the times of one host. The result has no lines of Python, since these are of all
        hosts.
        """
        of_host = np.array(self.hosts) == host
        parts = {part: times[of_host] for part, times in self.part_ps.items() if times[of_host].any()}
        categories = {category: times[of_host] for category, times in self.category_ps.items()}
        return replace(self, part_ps=parts, step_ps=self.step_ps[of_host], category_ps=categories, lines=(), hosts=())


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a comparison.

    name: label of the side
    captures: captures of one program, each with at least one step
    facts: facts in words: those of the first capture, since all captures of a side agree in them,
      and the lost data of any capture
    """

    name: str
    captures: tuple[CaptureTimes, ...]
    facts: Mapping[str, str]

    @classmethod
    def from_runs(cls, name: str, *runs: Run) -> Side:
        """Return the side whose captures are these runs. Raises UsageError for a run without a
        step, and for runs that belong to different sides.
        """
        return cls.merge(name, [cls(run.source, (_capture(run),), compute_facts(run)) for run in runs])

    @classmethod
    def merge(cls, name: str, sides: Sequence[Side]) -> Side:
        """Return one side with the captures of several. Raises UsageError where the sides differ in
        facts that must agree within a side, or where a capture appears twice.
        """
        first = sides[0]
        for side in sides:
            differ = find_conflicts(first.facts, side.facts)
            differ += [
                difference.name
                for difference in find_program_difference(first.facts, side.facts, compute_shared_fraction(first, side))
            ]
            if differ:
                raise UsageError(
                    f"{first.name} and {side.name} are no captures of one side: they differ in {', '.join(differ)}."
                )
        captures = tuple(capture for side in sides for capture in side.captures)
        if len({capture.step_ps.tobytes() for capture in captures}) < len(captures):
            raise UsageError(f"A capture of {name} is given twice, and would count as two. Give each once.")
        return cls(name, captures, merge_facts([side.facts for side in sides]))

    of, joined = from_runs, merge  # their names in 0.2

    @once
    def parts(self) -> tuple[PartKey, ...]:
        """All parts of all captures, in order of first appearance."""
        return tuple(dict.fromkeys(part for capture in self.captures for part in capture.part_ps))

    def part_times(self, part: PartKey) -> list[Values]:
        """Return a part's times in each capture, ps; zeros where a capture does
        not have the part.
        """
        return [capture.part_ps.get(part, np.zeros(len(capture.step_ps))) for capture in self.captures]

    def part_means(self, part: PartKey) -> list[float]:
        """Return the mean of a part's times in each capture, ps."""
        return [value for value, _ in self._means(self.part_times(part))]

    def part_mean(self, part: PartKey) -> Mean:
        """Return the mean of a part's times, ps per step."""
        return self._mean(self.part_times(part))

    def category_mean(self, category: Category) -> Mean:
        """Return the mean of a category's times, ps per step."""
        return self._mean([capture.category_ps[category] for capture in self.captures])

    def _mean(self, times: Sequence[Values]) -> Mean:
        return combine_means(self._means(times), self.capture_log_sd)

    def _means(self, times: Sequence[Values]) -> list[tuple[float, float]]:
        """Return (mean, error) over the steps of each capture."""
        return [mean_with_error(step_times, capture.hosts) for step_times, capture in zip(times, self.captures, strict=True)]

    @property
    def short_parts(self) -> frozenset[PartKey]:
        """Parts that are short in at least one capture."""
        return frozenset[PartKey]().union(*(capture.short_parts for capture in self.captures))

    def merge_parts(self, parts: Set[PartKey]) -> Side:
        """Return this side with the given short parts merged into one."""
        return replace(self, captures=tuple(_join_short(capture, parts) for capture in self.captures)) if parts else self

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that all captures have in common, sorted; empty where there is one host."""
        first = tuple(dict.fromkeys(self.captures[0].hosts))
        return first if all(tuple(dict.fromkeys(capture.hosts)) == first for capture in self.captures) else ()

    def select_host(self, host: str) -> Side:
        """Return the side reduced to one host."""
        return replace(self, name=host, captures=tuple(capture.select_host(host) for capture in self.captures))

    @property
    def step_times(self) -> list[float]:
        """Mean step time of each capture, ps."""
        return [mean_with_error(capture.step_ps, capture.hosts)[0] for capture in self.captures]

    @property
    def step_time(self) -> Mean:
        """Step time, ps."""
        return self._mean([capture.step_ps for capture in self.captures])

    @property
    def untrimmed_step_ps(self) -> float:
        """Untrimmed mean of all steady steps, which reports show as the step time, ps. A comparison
        trims its means, so that single steps decide nothing.
        """
        return float(np.mean([capture.step_ps.mean() for capture in self.captures]))

    @property
    def capture_log_sd(self) -> float:
        """Prior sd of the log of a mean between captures."""
        return CAPTURE_LOG_SD[self.uses_device]

    @property
    def step_count(self) -> int:
        """Number of steps in all captures."""
        return sum(len(capture.step_ps) for capture in self.captures)

    @property
    def size_text(self) -> str:
        """Number of steps and captures as text: `48 steps of 3 captures`."""
        return format_count(self.step_count, "step") + (f" of {len(self.captures)} captures" if len(self.captures) > 1 else "")

    @property
    def uses_device(self) -> bool:
        """Whether devices work in the side's steps."""
        return any(part[0] == DEVICE for part in self.parts)


def compute_shared_fraction(before: Side, after: Side) -> float:
    """Return the share of the faster side's time in parts that both sides have."""
    fast, index = min((before, 0), (after, 1), key=lambda choice: choice[0].step_time.value)
    part_sets = [set(side.parts) for side in (before, after)]
    times = {
        pair: sum(float(times.mean()) for times in fast.part_times(pair[index]))
        for pair in pair_parts(before.parts, after.parts)
    }
    total = sum(times.values())
    return (
        sum(time for (part, other), time in times.items() if part in part_sets[0] and other in part_sets[1]) / total
        if total
        else 0.0
    )


def classify_part(part: PartKey) -> str:
    """Return the class of work that a part belongs to."""
    side, kind, _ = part
    if side == STEP_SIDE:
        return PYTHON
    if side == INPUT_PIPELINE:
        return INPUT
    if _COPIES.search(kind):
        return COPIES
    if side == DEVICE:
        return ON_DEVICE
    return DENSE if MULTITHREADED_OPS.match(kind) else ELEMENTWISE


def _capture(run: Run) -> CaptureTimes:
    op_times, breakdown = op_step_times(run), step_breakdown(run).select_hosts(*main_program_hosts(run))
    steps = _round_times(op_times.step_ps)
    if not len(steps) or not steps.all():
        raise UsageError(f"No step was found in {run.source}, so that there is nothing to compare. 'outpace report' says why.")
    per_row = np.array([breakdown.steps_per_execution[host] for host in breakdown.steady_steps["host"].tolist()], np.float64)
    categories = {category: _round_times(breakdown.category_ps(category) / per_row) for category in Category}
    parts = {
        op: _round_times(op_times.time_ps[row])
        for row, op in enumerate(op_times.ops)
        if not (op[0] == INPUT_PIPELINE and _is_waiting_stage(op))
    }
    parts |= {(STEP_SIDE, category.label, category.label): categories[category] for category in _TIME_WITHOUT_OPS}
    parts |= {
        (STEP_SIDE, part, part): _round_times(times) for part, times in _without_ops(run, breakdown.steps_per_execution).items()
    }
    parts = {part: times for part, times in parts.items() if times.any()}
    short, machine = op_times.short_ops & parts.keys(), compute_machine(run, main_program_hosts(run))
    sampled, compiled = compute_sampled_lines(run), compute_line_work(run)
    return CaptureTimes(parts, steps, categories, sampled, short, machine, _hosts(run, breakdown), compiled)


def _hosts(run: Run, breakdown: StepBreakdown) -> tuple[str, ...]:
    """Return the host of each steady step, in the order of `op_step_times`."""
    hosts = main_program_hosts(run)
    counts = [int(breakdown.steady_mask[breakdown.steps["host"] == host].sum()) for host in hosts]
    return tuple(host for host, count in zip(hosts, counts, strict=True) for _ in range(count)) if len(hosts) > 1 else ()


def _without_ops(run: Run, per_row: Mapping[str, int]) -> dict[str, Values]:
    """Return the time that hosts of the main program spend in a training step
    while no op runs, ps.
    """
    times_by_part: dict[str, list[Values]] = {}
    for host in main_program_hosts(run):
        for part, times in time_without_ops(run, host).items():
            times_by_part.setdefault(part, []).append(times / per_row[host])
    return {part: np.concatenate(times) for part, times in times_by_part.items()}


def _join_short(capture: CaptureTimes, short: Set[PartKey]) -> CaptureTimes:
    parts = {part: times for part, times in capture.part_ps.items() if part not in short}
    joined = [times for part, times in capture.part_ps.items() if part in short]
    return replace(capture, part_ps=parts | {SHORT_OPS: np.asarray(sum(joined), np.float64)} if joined else parts)


def _round_times(times: Values) -> Values:
    """Round times to whole nanoseconds, the unit of profilers; times divided among threads and
    devices are fractions otherwise.
    """
    return np.asarray(np.rint(times / _NANOSECOND) * _NANOSECOND, np.float64)


def is_waiting(part: PartKey) -> bool:
    """Whether the part is waiting for other hosts: in a collective, or for results from another
    host.
    """
    return part[2] == WAITING or bool(_COLLECTIVE.search(part[1]))


def _is_waiting_stage(part: PartKey) -> bool:
    """Whether the part is a stage of an input pipeline that, where it is called, waits for elements
    from other threads.
    """
    stage = part[2].rpartition("::")[2]
    return part[1] == "Dataset" and (stage == "Root" or is_async_stage(stage))

# SPDX-License-Identifier: Apache-2.0
"""Comparison of two sides: what changed, and whether the program or the machine changed it.

Two measures show what the program adds to a step. The *parts* measure the time of the parts that
leave their class of work (`changes.py`); the *step* measures how much longer it takes as a whole,
which is the program's as far as it is not the machine's. Which measure is used depends on what is
known: the first `VerdictBasis` that applies is the comparison's.

Three rules hold for every basis. A verdict never contradicts the step's own ratio, unless the
machine is known to be slower, or faster, by as much. Time that nothing explains is attributed
neither to the program nor to the machine: the machine is named only where evidence from outside the
parts supports it (`evidence.py`). And there is one number, with its interval, for what the program
adds: the headline and the gate read the same one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace.compare.changes import (
    MIN_CAPTURES,
    PROGRAM_KINDS,
    ZERO_SHARE,
    Change,
    ChangeKind,
    ShareEstimate,
    clamp_share,
    compute_changes,
    compute_min_change,
    compute_share,
    compute_share_bounds,
)
from outpace.compare.evidence import MachineEvidence, compare_machines
from outpace.compare.facts import FactDifference, find_differences, find_program_difference
from outpace.compare.machine_model import CLASS_LOG_SD, MIN_PARTS_OWN_FACTOR, Factor, PartRow, fit_machine_model
from outpace.compare.pairs import pair_parts
from outpace.compare.side import PartKey, Side, classify_part
from outpace.model import Category, UsageError
from outpace.model.interval import NORMAL_95
from outpace.stats.intervals import LEVEL, student
from outpace.stats.means import Mean, log_ratio_half_width

MIN_EFFECT = 0.05  # maximum change, as a share of a step, for the verdict "no difference"
# minimum share of the log of the step's ratio that all work has in common, for the step to follow
# the machine
_FOLLOWS = 0.5
_AGAINST = math.log(1.05)  # log of the step's ratio that may contradict a verdict where the machine is unknown


class Verdict(str, Enum):
    """Result of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    OPEN = "inconclusive"
    MACHINE = "the machine"
    IDENTICAL = "the same run"


class VerdictBasis(Enum):
    """State of knowledge about two sides, which decides how the program's change is measured."""

    IDENTICAL = "both sides are the same captures: there is nothing to compare"
    APART = "the sides differ in what forbids to compare them"
    IN_TURNS = "captures in turns rule the machine out: the step speaks, and all of its change is the program's"
    FEW_SHARED = "the sides share too little for parts to tell the program from the machine: the step speaks"
    MORE = "the step surely changed by more than the parts say: they speak, and whose the rest is stays open"
    BESIDE = "parts changed by more than the step did, since they run beside it: the step speaks"
    COARSE = "the step is more precise than the parts: it speaks"
    PARTS = "the parts speak"


@dataclass(frozen=True)
class Measure:
    """What the program adds to a step, by the measure that the basis names.

    basis: state of knowledge about the sides
    program_share: time that the program adds, as a share of `step_expected_ps`
    bound_share: the same share with all changes that are not significant
    supported: whether the condition of the basis for a verdict is met: none, that the parts
      together changed significantly, or that the step also did in their direction
    """

    basis: VerdictBasis
    program_share: ShareEstimate
    bound_share: ShareEstimate
    supported: bool


def _choose_measure(parts: ShareEstimate, step: ShareEstimate, bound: ShareEstimate) -> Measure:
    """Return the measure for two sides that can be compared by their parts.

    parts: time that the changed parts add, as a share of a step
    step: time that the step as a whole takes beyond the machine, as a share of a step
    bound: least and most that all parts add, including the differences between classes of work
    """
    changed = parts.excludes_zero
    if step.low > parts.high >= 0 or step.high < parts.low <= 0:
        return Measure(VerdictBasis.MORE, parts, parts.union(step).union(bound), changed)
    if parts.low > step.high or parts.high < step.low:
        same_direction = step.excludes_zero and parts.value * step.value > 0
        return Measure(VerdictBasis.BESIDE, step, step, changed and same_direction)
    if parts.half_width > step.half_width:
        return Measure(VerdictBasis.COARSE, step, step, changed)
    return Measure(VerdictBasis.PARTS, parts, parts.union(bound), changed)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Comparison of two sides.

    before, after: the sides
    min_effect: change of a step up to which the verdict is "no difference", as a share
    basis: state of knowledge about the sides, which decides how the program's change is measured
    step_before, step_after: step times
    step_expected_ps: expected time of the first program's step if every change common to all of its
      work were due to the second side's machine, ps
    ratio_low, ratio_high: 95% interval of the ratio of step times, after to before
    program_share: time that the program adds, as a share of `step_expected_ps`
    bound_share: the same share with all changes that are not significant
    supported: whether the condition of the basis for a verdict is met
    evidence: evidence about the machine from outside the parts
    changes: the change of each part
    factors: factor of each class of work
    differences: facts that differ, with whether each forbids a comparison
    categories: mean times of each category on both sides
    """

    before: Side
    after: Side
    min_effect: float
    basis: VerdictBasis
    step_before: Mean
    step_after: Mean
    step_expected_ps: float
    ratio_low: float
    ratio_high: float
    program_share: ShareEstimate
    bound_share: ShareEstimate
    supported: bool
    evidence: MachineEvidence
    changes: tuple[Change, ...]
    factors: Mapping[str, Factor]
    differences: tuple[FactDifference, ...]
    categories: Mapping[Category, tuple[Mean, Mean]]

    @property
    def ratio(self) -> float:
        """Ratio of step times, after to before."""
        return self.step_after.value / self.step_before.value

    @property
    def is_comparable(self) -> bool:
        """Whether a difference can be attributed to the program at all."""
        return self.basis is not VerdictBasis.APART

    @property
    def blocking_facts(self) -> list[str]:
        """Names of the facts that forbid a comparison."""
        return [difference.name for difference in self.differences if difference.blocks]

    @property
    def max_program_share(self) -> float:
        """Upper bound of what the program adds or saves, as a share of a step."""
        return max(self.bound_share.high, -self.bound_share.low)

    @property
    def unexplained_share(self) -> float:
        """Growth of the step beyond what the program adds, as a share: changes common to all work,
        and changes without an explanation.
        """
        return self.ratio / (1 + self.program_share.value) - 1 if self.program_share.value > -1 else math.inf

    @property
    def machine_may_explain(self) -> bool:
        """Whether evidence from outside the parts allows the machine to be the
        cause of the rest.
        """
        return (
            math.isfinite(self.unexplained_share)
            and self.unexplained_share > -1
            and self.evidence.explains(math.log1p(self.unexplained_share))
        )

    @property
    def common_share(self) -> float:
        """Share of the step's change that is common to all work: a ratio of logs."""
        return math.log(self.step_expected_ps / self.step_before.value) / math.log(self.ratio) if self.ratio != 1 else 0.0

    @property
    def follows_machine(self) -> bool:
        """Whether evidence from outside the parts shows a machine that differs in the step's
        direction, and most of the step's change follows it: it is common to all work, and no
        part is known to be changed by the program.
        """
        expected, follows = self.evidence.expected_log, self.common_share >= _FOLLOWS
        differs = abs(expected) > math.log1p(self.min_effect) and expected * math.log(self.ratio) > 0
        return self.machine_may_explain and differs and follows and not self.program_share.excludes_zero

    @property
    def may_be_chance(self) -> bool:
        """Whether single processes may differ by as much as the program seems to: the loops show
        the same machine, and still all work changed in the direction of the parts, by more than
        the parts. Three captures of each side show how far processes differ.
        """
        same = bool(self.evidence.loop_ratios) and not self.evidence.log_shift
        if not self.few_captures or not same or self.basis is not VerdictBasis.PARTS or self.machine_may_explain:
            return False
        rest, program = math.log1p(self.unexplained_share), math.log1p(self.program_share.value)
        return rest * program > 0 and abs(rest) > abs(program)

    @property
    def few_captures(self) -> bool:
        """Whether there are too few captures to show how far captures of one program differ."""
        return min(len(self.before.captures), len(self.after.captures)) < MIN_CAPTURES

    @property
    def own_changes(self) -> tuple[Change, ...]:
        """The program's own changes, the largest first."""
        return tuple(change for change in self.changes if change.kind in PROGRAM_KINDS)

    @property
    def main_change(self) -> Change:
        """The change that makes most of what the program adds or saves. Where time has moved and
        more appeared than disappeared, one of the parts in which it appeared or disappeared.
        """
        sign = 1 if self.program_share.value > 0 else -1
        return max(
            (change for change in self.changes if change.kind is not ChangeKind.MACHINE),
            key=lambda change: (change.kind in PROGRAM_KINDS, sign * change.delta_ps),
        )

    @once
    def host_comparisons(self) -> tuple[Comparison, ...]:
        """Comparison of each host with itself, where both sides have the same number of several
        hosts: one host that takes longer makes all others wait.
        """
        one, two = self.before.hosts, self.after.hosts
        if not one or len(one) != len(two):
            return ()
        pairs = zip(one, one if set(one) == set(two) else two, strict=True)
        return tuple(
            compare(self.before.select_host(host_before), self.after.select_host(host_after), self.min_effect)
            for host_before, host_after in pairs
        )

    @once
    def verdict(self) -> Verdict:
        """Verdict of the comparison."""
        if self.basis is VerdictBasis.IDENTICAL:
            return Verdict.IDENTICAL
        direction = _direction(self)
        if direction is not None:
            return direction
        if not self.is_comparable:
            return Verdict.OPEN
        if abs(math.log(self.ratio)) <= math.log1p(self.min_effect):
            return Verdict.SAME if self.max_program_share <= self.min_effect else Verdict.OPEN
        return (
            Verdict.MACHINE
            if self.follows_machine or (self.machine_may_explain and self.max_program_share <= self.min_effect)
            else Verdict.OPEN
        )


def _direction(comparison: Comparison) -> Verdict | None:
    """Return faster or slower where it is significant: the program's share excludes 0 and is too
    large to be a difference between single processes, and the step did not significantly change
    the other way by more than the machine is known to cause.
    """
    if (
        not comparison.supported
        or not comparison.program_share.excludes_zero
        or comparison.program_share.value <= -1
        or comparison.may_be_chance
    ):
        return None
    slower, evidence = comparison.program_share.value > 0, comparison.evidence
    step = math.log(comparison.ratio)
    if step < min(evidence.low_log, -_AGAINST) if slower else step > max(evidence.high_log, _AGAINST):
        return None
    alone = comparison.basis in (VerdictBasis.IN_TURNS, VerdictBasis.FEW_SHARED)
    # the other parts of another machine are unknown
    if comparison.basis is VerdictBasis.FEW_SHARED and not evidence.loop_ratios:
        return None
    nearest = comparison.program_share.low if slower else comparison.program_share.high
    least = (
        comparison.min_effect if comparison.few_captures or alone else compute_min_change(comparison.before, comparison.after)
    )
    if abs(math.log1p(nearest if alone else comparison.program_share.value)) <= math.log1p(least):
        return None
    return Verdict.SLOWER if slower else Verdict.FASTER


def compare(before: Side, after: Side, min_effect: float = MIN_EFFECT, *, in_turns: bool = False) -> Comparison:
    """Compare two sides.

    min_effect: change of a step up to which the verdict is "no difference", as a share
    in_turns: whether the sides were captured in turns

    Raises UsageError where some of the captures are on both sides, and others on one.
    """
    identical = _identical(before, after)
    short = _short(before, after)
    before, after = before.merge_parts(short), after.merge_parts(short)
    one, two = before.step_time, after.step_time
    evidence = compare_machines(before.captures, after.captures)
    rows, times = _rows(before, after), (one.value, two.value)
    explanation = fit_machine_model(
        rows, len(before.captures), times, evidence.log_shift, evidence.class_log_sd, evidence.max_class_log
    )
    changes = compute_changes(explanation.rows, explanation.factors, before, after, min(one.value, two.value))
    apart_by = log_ratio_half_width(before.step_times, after.step_times) if in_turns else math.inf
    low, high = _interval(one, two, apart_by)
    machine, loops = _machine_ratio(changes), math.exp(evidence.log_shift)
    common = math.log((two.value / one.value if explanation.too_few_shared else machine) / loops)
    ruled_out = abs(common) - apart_by > math.log1p(min_effect)
    # with too few shared parts, the cause of a change in a part that both sides have is unknown
    if explanation.too_few_shared and not ruled_out:
        changes = [
            replace(change, kind=ChangeKind.MACHINE) if change.kind is ChangeKind.CHANGED else change for change in changes
        ]
    step = one.value * (loops if ruled_out else machine)
    differs = find_differences(before.facts, after.facts) + find_program_difference(
        before.facts, after.facts, explanation.shared_fraction
    )
    step_share = clamp_share(*(ratio * one.value / step - 1 for ratio in (two.value / one.value, low, high)))
    if identical:
        measure = Measure(VerdictBasis.IDENTICAL, ZERO_SHARE, ZERO_SHARE, False)
    elif any(difference.blocks for difference in differs):
        measure = Measure(VerdictBasis.APART, step_share, step_share, False)
    elif ruled_out or explanation.too_few_shared:
        measure = Measure(VerdictBasis.IN_TURNS if ruled_out else VerdictBasis.FEW_SHARED, step_share, step_share, True)
    else:
        parts = compute_share([change for change in changes if change.kind is not ChangeKind.MACHINE], step)
        measure = _choose_measure(parts, step_share, _total_bounds(changes, explanation.factors, step, evidence.log_shift))
    changes.sort(key=lambda change: -abs(change.delta_ps))
    categories = {category: (before.category_mean(category), after.category_mean(category)) for category in Category}
    return Comparison(
        before, after, min_effect, measure.basis, one, two, step, low, high, measure.program_share, measure.bound_share,
        measure.supported, evidence, tuple(changes), explanation.factors, differs, categories,
    )  # fmt: skip


def _identical(before: Side, after: Side) -> bool:
    """Whether both sides are the same captures. Raises UsageError where only some are."""
    one, two = ({(capture.step_ps.tobytes(), capture.lines) for capture in side.captures} for side in (before, after))
    if one & two and one != two:
        raise UsageError(
            f"A capture stands on both sides: {before.name} and {after.name}. Give each on one side, or the same run twice."
        )
    return one == two


def _short(before: Side, after: Side) -> set[PartKey]:
    """Return the parts to merge into one with the executor: short on every side that has them. A
    part that grew long on one side remains by itself.
    """
    long = (set(before.parts) - before.short_parts) | (set(after.parts) - after.short_parts)
    return set(before.short_parts | after.short_parts) - long


def _rows(before: Side, after: Side) -> list[PartRow]:
    return [
        PartRow(part, part_after, classify_part(part), (*before.part_means(part), *after.part_means(part_after)))
        for part, part_after in pair_parts(before.parts, after.parts)
    ]


def _machine_ratio(changes: Sequence[Change]) -> float:
    """Return the ratio by which the machine alone lengthens all parts."""
    before = math.fsum(change.before.value for change in changes)
    return math.fsum(change.expected_ps for change in changes) / before if before else 1.0


def _total_bounds(changes: Sequence[Change], factors: Mapping[str, Factor], step: float, outside: float) -> ShareEstimate:
    """Return the least and the most that all parts add to a step, including how far each class of
    work differs from the other classes and from the outside evidence beyond what machines cause:
    the program may have changed the whole class.
    """
    parts = compute_share_bounds(changes, step)
    own_factors = {work: factor for work, factor in factors.items() if factor.part_count >= MIN_PARTS_OWN_FACTOR}
    logs = [outside, *(factor.log_factor for factor in own_factors.values())]
    least, most = min(logs) + NORMAL_95 * CLASS_LOG_SD, max(logs) - NORMAL_95 * CLASS_LOG_SD
    low = high = 0.0
    for work, factor in own_factors.items():
        before = math.fsum(change.before.value for change in changes if change.work_class == work) / step
        high += before * max(math.exp(factor.log_factor) - math.exp(least), 0.0)
        low -= before * max(math.exp(most) - math.exp(factor.log_factor), 0.0)
    return clamp_share(parts.value, parts.low + low, parts.high + high)


def _interval(one: Mean, two: Mean, apart_by: float) -> tuple[float, float]:
    """Return the 95% interval of the ratio of step times, including the variance between captures
    of one program; captures in turns provide that variance themselves.
    """
    half = student(LEVEL, min(one.freedom, two.freedom)) * math.hypot(one.relative_error, two.relative_error)
    half = apart_by if math.isfinite(apart_by) else half
    log = math.log(two.value / one.value)
    return math.exp(log - half), math.exp(log + half)

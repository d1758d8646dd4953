"""What changed between two sides, and whether the program did it or the machine.

Two things speak of what the program adds to a step. The *parts* say what those take that leave their class of work (`changes.py`); the *step*
says how much longer it takes as a whole, which is the program's as far as it is not the machine's. Which of them speaks depends on what is
known: `STATES` is the table, and the first state that applies is the comparison's.

Three rules hold in every state. A verdict never stands against the step's own ratio, unless the machine
is known to be slower, or faster, by as much. Time that nothing explains is neither the
program's nor the machine's: the machine is named only where evidence from outside the parts says so (`evidence.py`). And there is one number,
with its interval, for what the program adds: the headline and the gate read the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from outpace._dataclass import dataclass
from outpace._once import once
from outpace.compare.changes import ENOUGH, NOTHING, OWN, Change, Kind, Share, bounded, changes_of, matters, share, summed
from outpace.compare.evidence import Evidence, evidence
from outpace.compare.facts import Difference, differences, other_programs
from outpace.compare.machine import CLASSES, OWN_FACTOR, Factor, Row, explained
from outpace.compare.means import Mean, apart_in_turns
from outpace.compare.pairs import pairs
from outpace.compare.side import Part, Side, class_of
from outpace.model import Category, UsageError
from outpace.tune.trial.statistics import LEVEL, student

EFFECT = 0.05  # of a step: up to that, "no difference" is said
_FOLLOWS = 0.5  # of the log of the step's ratio, that all work changed alike, for the step to follow the machine
_AGAINST = math.log(1.05)  # of the step's ratio, that may stand against a verdict where nothing is known of the machine
_HALF = 1.96  # standard errors: half of a 95% interval of a normal number


class Verdict(str, Enum):
    """What a comparison comes to."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    OPEN = "inconclusive"
    MACHINE = "the machine"
    IDENTICAL = "the same run"


class State(Enum):
    """What is known, and with it what speaks of the program."""

    IDENTICAL = "both sides are the same captures: there is nothing to compare"
    APART = "the sides differ in what forbids to compare them"
    IN_TURNS = "captures in turns rule the machine out: the step speaks, and all of its change is the program's"
    FEW_SHARED = "the sides share too little for parts to tell the program from the machine: the step speaks"
    MORE = "the step surely changed by more than the parts say: they speak, and whose the rest is stays open"
    BESIDE = "parts changed by more than the step did, since they run beside it: the step speaks"
    COARSE = "the step is more precise than the parts: it speaks"
    PARTS = "the parts speak"


@dataclass(frozen=True, eq=False)
class Measurement:
    """What a state is chosen by, and what is said in it. parts: what the parts that changed add; whole: what the step as a whole takes beyond
    the machine; every: what all parts add at least and at most, and classes of work beyond each other."""

    identical: bool
    apart: bool
    ruled_out: bool
    blind: bool
    parts: Share
    whole: Share
    every: Share

    @property
    def more(self) -> bool:
        """Whether the step surely changed by more than the parts say, in their direction."""
        return self.whole.low > self.parts.high >= 0 or self.whole.high < self.parts.low <= 0

    @property
    def disagree(self) -> bool:
        """Whether the step surely took something else than the parts say."""
        return self.parts.low > self.whole.high or self.parts.high < self.whole.low


@dataclass(frozen=True)
class _Row:
    """A row of the table of states: when it applies, what speaks of what the program adds, what bounds that, and what a verdict asks of the
    parts: nothing, that together they surely take more or less, or that the step surely changed as they did, too."""

    state: State
    applies: Callable[[Measurement], bool]
    program: Callable[[Measurement], Share]
    bound: Callable[[Measurement], Share]
    supports: Callable[[Measurement], bool]


def _parts(found: Measurement) -> Share:
    return found.parts


def _whole(found: Measurement) -> Share:
    return found.whole


def _sure(found: Measurement) -> bool:
    """Whether the parts together surely take more, or less."""
    return found.parts.sure


def _bears(found: Measurement) -> bool:
    """Whether the step surely changed as the parts did."""
    return found.parts.sure and found.whole.sure and found.parts.value * found.whole.value > 0


STATES = (
    _Row(State.IDENTICAL, lambda found: found.identical, lambda _: NOTHING, lambda _: NOTHING, lambda _: False),
    _Row(State.APART, lambda found: found.apart, _whole, _whole, lambda _: False),
    _Row(State.IN_TURNS, lambda found: found.ruled_out, _whole, _whole, lambda _: True),
    _Row(State.FEW_SHARED, lambda found: found.blind, _whole, _whole, lambda _: True),
    _Row(
        State.MORE, lambda found: found.more, _parts, lambda found: found.parts.joined(found.whole).joined(found.every), _sure
    ),
    _Row(State.BESIDE, lambda found: found.disagree, _whole, _whole, _bears),
    _Row(State.COARSE, lambda found: found.parts.half > found.whole.half, _whole, _whole, _sure),
    _Row(State.PARTS, lambda _: True, _parts, lambda found: found.parts.joined(found.every), _sure),
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """state: the row of `STATES` that applies. low, high: of the ratio of step times, after to before. step_expected: what a step of the first
    program would take if all that changes its work alike were the second side's machine, ps. program: what the program adds to that, as a share
    of it; bound: the same with all that is not sure. supported: whether the parts support a verdict, as the state asks. evidence: what is known
    of the machine from outside. differs: facts in which the sides differ, with whether that forbids to compare."""

    before: Side
    after: Side
    effect: float
    state: State
    step_before: Mean
    step_after: Mean
    step_expected: float
    low: float
    high: float
    program: Share
    bound: Share
    supported: bool
    evidence: Evidence
    changes: tuple[Change, ...]
    factors: Mapping[str, Factor]
    differs: tuple[Difference, ...]
    categories: Mapping[Category, tuple[Mean, Mean]]

    @property
    def ratio(self) -> float:
        """Step time after to before."""
        return self.step_after.value / self.step_before.value

    @property
    def comparable(self) -> bool:
        """Whether a difference can be the program's at all."""
        return self.state is not State.APART

    @property
    def most(self) -> float:
        """What the program adds or saves at most, as a share of a step."""
        return max(self.bound.high, -self.bound.low)

    @property
    def rest(self) -> float:
        """What the step takes longer beyond what the program adds, as a share: what changed all work alike, and what nothing explains."""
        return self.ratio / (1 + self.program.value) - 1 if self.program.value > -1 else math.inf

    @property
    def machine_known(self) -> bool:
        """Whether evidence from outside the parts says that the machine may have made the rest."""
        return math.isfinite(self.rest) and self.rest > -1 and self.evidence.explains(math.log1p(self.rest))

    @property
    def alike(self) -> float:
        """How much of what the step takes longer, or less, all work changed alike: shares of logs."""
        return math.log(self.step_expected / self.step_before.value) / math.log(self.ratio) if self.ratio != 1 else 0.0

    @property
    def follows_machine(self) -> bool:
        """Whether evidence from outside says that the machine is another one in the step's direction, and most of the step follows it: all work
        changed alike, and no part is known to be the program's."""
        expected, follows = self.evidence.expected, self.alike >= _FOLLOWS
        differs = abs(expected) > math.log1p(self.effect) and expected * math.log(self.ratio) > 0
        return self.machine_known and differs and follows and not self.program.sure

    @property
    def by_chance(self) -> bool:
        """Whether single processes may differ by as much as the program seems to: the loops say that the machine is the same, and still all
        work changed in one direction with the parts, by more than they did. Three captures of each side tell how processes differ."""
        same = bool(self.evidence.loops) and not self.evidence.shift
        if not self.few or not same or self.state is not State.PARTS or self.machine_known:
            return False
        rest, program = math.log1p(self.rest), math.log1p(self.program.value)
        return rest * program > 0 and abs(rest) > abs(program)

    @property
    def few(self) -> bool:
        """Whether there are too few captures to tell how those of one program differ."""
        return min(len(self.before.captures), len(self.after.captures)) < ENOUGH

    @property
    def own(self) -> tuple[Change, ...]:
        """The program's own changes, the largest first."""
        return tuple(each for each in self.changes if each.kind in OWN)

    @property
    def leading(self) -> Change:
        """The change that makes most of what the program adds or saves; where time has moved and more came than went, one of these."""
        sign = 1 if self.program.value > 0 else -1
        return max(
            (each for each in self.changes if each.kind is not Kind.MACHINE),
            key=lambda each: (each.kind in OWN, sign * each.delta),
        )

    @once
    def hosts(self) -> tuple[Comparison, ...]:
        """Each host with itself, where both sides have the same number of several: one that takes longer makes all others wait."""
        one, two = self.before.hosts, self.after.hosts
        if not one or len(one) != len(two):
            return ()
        pairs = zip(one, one if set(one) == set(two) else two, strict=True)
        return tuple(compare(self.before.of_host(here), self.after.of_host(there), self.effect) for here, there in pairs)

    @once
    def verdict(self) -> Verdict:
        """What it comes to."""
        if self.state is State.IDENTICAL:
            return Verdict.IDENTICAL
        direction = _direction(self)
        if direction is not None:
            return direction
        if not self.comparable:
            return Verdict.OPEN
        if abs(math.log(self.ratio)) <= math.log1p(self.effect):
            return Verdict.SAME if self.most <= self.effect else Verdict.OPEN
        return Verdict.MACHINE if self.follows_machine or (self.machine_known and self.most <= self.effect) else Verdict.OPEN


def _direction(found: Comparison) -> Verdict | None:
    """Faster or slower, where that is sure: the program's share excludes 0 and is large enough to be no accident of single processes, and the
    step did not surely change the other way, by more than the machine is known to make of it."""
    if not found.supported or not found.program.sure or found.program.value <= -1 or found.by_chance:
        return None
    slower, known = found.program.value > 0, found.evidence
    step = math.log(found.ratio)
    if step < min(known.low, -_AGAINST) if slower else step > max(known.high, _AGAINST):
        return None
    alone = found.state in (State.IN_TURNS, State.FEW_SHARED)
    if found.state is State.FEW_SHARED and not known.loops:  # of other parts on another machine nobody knows anything
        return None
    nearest = found.program.low if slower else found.program.high
    least = found.effect if found.few or alone else matters(found.before, found.after)
    if abs(math.log1p(nearest if alone else found.program.value)) <= math.log1p(least):
        return None
    return Verdict.SLOWER if slower else Verdict.FASTER


def compare(before: Side, after: Side, effect: float = EFFECT, *, in_turns: bool = False) -> Comparison:
    """Compare two sides. effect: up to which share of a step "no difference" is said. in_turns: whether they were captured in turns.

    Raises UsageError where some of the captures stand on both sides, and others on one.
    """
    identical = _identical(before, after)
    short = _short(before, after)
    before, after = before.joining(short), after.joining(short)
    one, two = before.step, after.step
    known = evidence(before.captures, after.captures)
    rows, times = _rows(before, after), (one.value, two.value)
    explanation = explained(rows, len(before.captures), times, known.shift, known.uneven, known.reach)
    changes = changes_of(explanation.rows, explanation.factors, before, after, min(one.value, two.value))
    apart_by = apart_in_turns(before.step_times, after.step_times) if in_turns else math.inf
    low, high = _interval(one, two, apart_by)
    machine, loops = _slowed(changes), math.exp(known.shift)
    common = math.log((two.value / one.value if explanation.blind else machine) / loops)
    ruled_out = abs(common) - apart_by > math.log1p(effect)
    if explanation.blind and not ruled_out:  # nobody knows whose a change is of a part that both have
        changes = [replace(each, kind=Kind.MACHINE) if each.kind is Kind.CHANGED else each for each in changes]
    step = one.value * (loops if ruled_out else machine)
    differs = differences(before.facts, after.facts) + other_programs(before.facts, after.facts, explanation.shared)
    ratios = (two.value / one.value, low, high)
    measurement = Measurement(
        identical,
        any(difference.forbids for difference in differs),
        ruled_out,
        explanation.blind,
        summed([each for each in changes if each.kind is not Kind.MACHINE], step),
        share(*(ratio * one.value / step - 1 for ratio in ratios)),
        _every(changes, explanation.factors, step, known.shift),
    )
    row = next(row for row in STATES if row.applies(measurement))
    changes.sort(key=lambda each: -abs(each.delta))
    categories = {each: (before.mean_of(each), after.mean_of(each)) for each in Category}
    return Comparison(
        before, after, effect, row.state, one, two, step, low, high, row.program(measurement), row.bound(measurement),
        row.supports(measurement), known, tuple(changes), explanation.factors, differs, categories,
    )  # fmt: skip


def _identical(before: Side, after: Side) -> bool:
    """Whether both sides are the same captures. Raises UsageError where only some are."""
    one, two = ({(capture.steps.tobytes(), capture.lines) for capture in side.captures} for side in (before, after))
    if one & two and one != two:
        raise UsageError(
            f"A capture stands on both sides: {before.name} and {after.name}. Give each on one side, or the same run twice."
        )
    return one == two


def _short(before: Side, after: Side) -> set[Part]:
    """Parts that count as one with the executor: short on both sides, where they are. One that grew long on one side stands by itself."""
    long = (set(before.parts) - before.short) | (set(after.parts) - after.short)
    return set(before.short | after.short) - long


def _rows(before: Side, after: Side) -> list[Row]:
    return [
        Row(here, there, class_of(here), (*before.means(here), *after.means(there)))
        for here, there in pairs(before.parts, after.parts)
    ]


def _slowed(changes: Sequence[Change]) -> float:
    """How many times as long the machine alone makes all parts."""
    before = math.fsum(each.before.value for each in changes)
    return math.fsum(each.expected for each in changes) / before if before else 1.0


def _every(changes: Sequence[Change], factors: Mapping[str, Factor], step: float, outside: float) -> Share:
    """What all parts add to a step at least and at most, with what a class takes more, or less, than others would have it, and than evidence
    from outside would, beyond what machines make of classes: the program may have changed all of it."""
    parts = bounded(changes, step)
    known = {work: factor for work, factor in factors.items() if factor.parts >= OWN_FACTOR}
    logs = [outside, *(factor.log for factor in known.values())]
    least, most = min(logs) + _HALF * CLASSES, max(logs) - _HALF * CLASSES
    low = high = 0.0
    for work, factor in known.items():
        before = math.fsum(each.before.value for each in changes if each.work == work) / step
        high += before * max(math.exp(factor.log) - math.exp(least), 0.0)
        low -= before * max(math.exp(most) - math.exp(factor.log), 0.0)
    return share(parts.value, parts.low + low, parts.high + high)


def _interval(one: Mean, two: Mean, apart_by: float) -> tuple[float, float]:
    """Of the ratio of step times, with what captures of one program differ by: those in turns say it themselves."""
    half = student(LEVEL, min(one.freedom, two.freedom)) * math.hypot(one.relative, two.relative)
    half = apart_by if math.isfinite(apart_by) else half
    log = math.log(two.value / one.value)
    return math.exp(log - half), math.exp(log + half)

"""What changed between two sides, and whether the program did it or the machine.

What a part takes beyond its class of work (`machine.py`) is the program's where it exceeds its error by a test that keeps the rate of false
discoveries among all parts, and where it matters to the step. Time that appears in one place and goes in another of the same class has moved.
Parts are times of threads, which may work beside the step: where they say more than the step itself did, or say it less precisely, the step
speaks, and a step that surely changed the same way is slower, or faster, by them. Where the step took more than they say, what they say is
the program's, and nobody knows whose the rest is.

Of captures in turns more is known of the machine: whatever it does meanwhile falls on both sides alike. Where whole classes of work differ
between the sides by more than captures of one side do, and that matters, the machine did not do it, and the step speaks, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from outpace._dataclass import dataclass
from outpace.compare.facts import Difference, differences
from outpace.compare.machine import CLASSES, FEW, SEEN, Factor, Row, explained
from outpace.compare.means import Mean, apart_in_turns, discoveries, mean_in, mean_of, two_sided
from outpace.compare.pairs import pairs
from outpace.compare.side import BESIDE, Part, Side, class_of
from outpace.model import Category
from outpace.tune.trial.statistics import LEVEL, student

EFFECT = 0.05  # of a step: up to that, "no difference" is said
FALSE = 0.05  # share of parts that are called changed and are not
MATTERS, MATTERS_OF_FEW = 0.005, 0.01  # of a step, that a part must change by
ENOUGH = 3  # captures of each side, which show by how much one op differs from process to process, where its arrays lie in memory for example
_HALF = 1.96  # standard errors: half of a 95% interval of a normal number
_CANCELS = 0.25  # of two changes, that may be left of them where time has moved


class Verdict(str, Enum):
    """What a comparison comes to."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    OPEN = "inconclusive"
    MACHINE = "the machine"


class Kind(str, Enum):
    """What became of a part."""

    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    MOVED = "moved"
    MACHINE = ""  # as its class


_OWN = (Kind.CHANGED, Kind.NEW, Kind.GONE)


@dataclass(frozen=True)
class Change:
    """One part on both sides. name_after: what it is called on the second one. before, after: per step; expected: `before` by the factor of its
    class, ps; kind: what became of it; delta: how much more it takes than its class would have it, ps, with its interval."""

    part: Part
    name_after: str
    work: str
    before: Mean
    after: Mean
    expected: float
    kind: Kind
    delta: float
    low: float
    high: float

    @property
    def named(self) -> str:
        """What people know it by."""
        name = self.name_after if self.kind is Kind.NEW else self.part[2]
        return f"{self.work} ({name})" if self.part[0] == BESIDE else name


@dataclass(frozen=True, eq=False)
class Comparison:
    """ratio, low, high: of the step time, after to before. step_expected: what a step of the first program would take with the second side's
    machine, ps. program: what the program's own changes add to that, as a share of it, with `program_low` and `program_high`. least, most: what
    the program adds at least and at most, all parts together, and what classes of work take beyond each other. blind: whether too little is
    known of the machine to tell it from the program, so that the step alone speaks. in_turns: whether captures in turns rule the machine
    out, so that it does so, too. beside: whether parts changed by more than the step itself did, so that they run beside it. differs: facts
    in which the sides differ, with whether that forbids to compare."""

    before: Side
    after: Side
    verdict: Verdict
    step_before: Mean
    step_after: Mean
    step_expected: float
    low: float
    high: float
    program: float
    program_low: float
    program_high: float
    least: float
    most: float
    blind: bool
    in_turns: bool
    beside: bool
    changes: tuple[Change, ...]
    factors: Mapping[str, Factor]
    differs: tuple[Difference, ...]
    categories: Mapping[Category, tuple[Mean, Mean]]

    @property
    def ratio(self) -> float:
        """Step time after to before."""
        return self.step_after.value / self.step_before.value

    @property
    def bound(self) -> float:
        """What the program adds or saves at most, all parts together."""
        return max(self.most, -self.least)

    @property
    def comparable(self) -> bool:
        """Whether a difference can be the program's at all."""
        return not any(forbids for *_, forbids in self.differs)

    @property
    def own(self) -> tuple[Change, ...]:
        """The program's own changes, the largest first."""
        return tuple(each for each in self.changes if each.kind in _OWN)

    @property
    def leading(self) -> Change:
        """The change that makes most of what the program adds or saves; where time has moved and more came than went, one of these."""
        sign = 1 if self.program > 0 else -1
        return max(
            (each for each in self.changes if each.kind is not Kind.MACHINE),
            key=lambda each: (each.kind in _OWN, sign * each.delta),
        )


def compare(before: Side, after: Side, effect: float = EFFECT, *, in_turns: bool = False) -> Comparison:
    """Compare two sides. effect: up to which share of a step "no difference" is said. in_turns: whether they were captured in turns."""
    short = before.short | after.short
    before, after = before.joining(short), after.joining(short)
    one, two = before.step, after.step
    rows = [
        Row(here, there, class_of(here), tuple(mean_in(times)[0] for times in (*before.times(here), *after.times(there))))
        for here, there in pairs(before.parts, after.parts)
    ]
    rows, factors, blind = explained(rows, len(before.captures), one.value)
    changes = _changes(rows, factors, before, after, one.value)
    apart_by = apart_in_turns(before.step_times, after.step_times) if in_turns else math.inf
    machine = two.value / one.value if blind else _slowed(changes)  # at most
    ruled_out = abs(math.log(machine)) - apart_by > math.log1p(effect)
    step = one.value * (1.0 if blind or ruled_out else machine)
    if blind and not ruled_out:  # nobody knows whose a change is of a part that both have
        changes = [replace(each, kind=Kind.MACHINE) if each.kind is Kind.CHANGED else each for each in changes]
    low, high = _interval(one, two, apart_by)
    whole = Added(*(each * one.value / step - 1 for each in (two.value / one.value, low, high)))
    program = summed([each for each in changes if each.kind is not Kind.MACHINE], step)
    own = any(each.kind is not Kind.MACHINE for each in changes)
    alone = blind or ruled_out
    sure = not (alone or program.low <= 0 <= program.high)  # that it is the program that changed
    less = sure and (whole.low > program.high > 0 or whole.high < program.low < 0)  # parts say less of it than the step did
    beside = not (alone or less) and (program.low > whole.high or program.high < whole.low)
    bears = (
        min(program.low, whole.low) > 0 or max(program.high, whole.high) < 0
    )  # on the step, which surely changed the same way
    step_speaks = alone or beside or (program.half > whole.half and not less)
    program = whole if step_speaks else program
    every = whole if step_speaks or less else summed(changes, step)
    apart = Added(0.0, 0.0, 0.0) if step_speaks or less else _apart(changes, factors, step)
    differs = differences(before.facts, after.facts)
    least, most = every.low + apart.low, every.high + apart.high
    touched = own and not alone and (bears or not beside) and (sure or not step_speaks)
    verdict = _verdict(one, two, program, every, max(most, -least), touched, alone, effect, _matters(before, after))
    changes.sort(key=lambda each: -abs(each.delta))
    categories = {each: (_mean(before, each), _mean(after, each)) for each in Category}
    return Comparison(
        before, after, Verdict.OPEN if any(forbids for *_, forbids in differs) else verdict, one, two, step, low, high, *program, least, most,
        blind, ruled_out, own and beside, tuple(changes), factors, differs, categories,
    )  # fmt: skip


def _mean(side: Side, category: Category) -> Mean:
    return mean_of([capture.categories[category] for capture in side.captures], side.between)


def _slowed(changes: Sequence[Change]) -> float:
    """How many times as long the machine alone makes all parts."""
    before = math.fsum(each.before.value for each in changes)
    return math.fsum(each.expected for each in changes) / before if before else 1.0


class Added(NamedTuple):
    """What is added to a step, with its interval."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2


def summed(changes: Sequence[Change], step: float = 1.0) -> Added:
    """What changes add to a step, as a share of it (in ps without one)."""
    value = math.fsum(each.delta for each in changes) / step
    half = math.sqrt(math.fsum(((each.high - each.low) / 2) ** 2 for each in changes)) / step
    return Added(value, value - half, value + half)


def _apart(changes: Sequence[Change], factors: Mapping[str, Factor], step: float) -> Added:
    """What a class takes more, and less, than others would have it, beyond what machines make of classes: the program may have changed all of
    it."""
    known = {work: factor for work, factor in factors.items() if factor.parts >= FEW}
    if not known:
        return Added(0.0, 0.0, 0.0)
    logs = [factor.log for factor in known.values()]
    least, most = min(logs) + _HALF * CLASSES, max(logs) - _HALF * CLASSES
    low = high = 0.0
    for work, factor in known.items():
        before = math.fsum(each.before.value for each in changes if each.work == work) / step
        high += before * max(math.exp(factor.log) - math.exp(least), 0.0)
        low -= before * max(math.exp(most) - math.exp(factor.log), 0.0)
    return Added(0.0, low, high)


def _interval(one: Mean, two: Mean, apart_by: float) -> tuple[float, float]:
    """Of the ratio of step times, with what captures of one program differ by: those in turns say it themselves."""
    half = student(LEVEL, min(one.freedom, two.freedom)) * math.hypot(one.relative, two.relative)
    half = apart_by if math.isfinite(apart_by) else half
    log = math.log(two.value / one.value)
    return math.exp(log - half), math.exp(log + half)


def _verdict(
    one: Mean, two: Mean, program: Added, every: Added, bound: float, touched: bool, alone: bool, effect: float, matters: float
) -> Verdict:
    log = math.log(two.value / one.value)
    if touched and not program.low <= 0 <= program.high and abs(program.value) >= matters:
        return Verdict.SLOWER if program.low > 0 else Verdict.FASTER
    if alone and (every.low > effect or every.high < 1 / (1 + effect) - 1):
        return Verdict.SLOWER if log > 0 else Verdict.FASTER
    if bound <= effect:
        return Verdict.SAME if abs(log) <= effect else Verdict.MACHINE
    if alone or touched or not every.low <= 0 <= every.high:
        return Verdict.OPEN
    steps = _HALF * math.hypot(one.sampled / one.value, two.sampled / two.value)  # of these captures alone
    return Verdict.MACHINE if abs(log) - steps > effect else Verdict.OPEN


def _matters(before: Side, after: Side) -> float:
    """Share of a step from which on a change is one."""
    return MATTERS if min(len(before.captures), len(after.captures)) >= ENOUGH else MATTERS_OF_FEW


def _changes(rows: Sequence[Row], factors: Mapping[str, Factor], before: Side, after: Side, step: float) -> list[Change]:
    found = []
    for row in rows:
        one, two = (mean_of(side.times(part), side.between) for side, part in ((before, row.part), (after, row.other)))
        if row.error:
            expected = one.value * math.exp(factors[row.work].log)
            steps = math.hypot(one.sampled / one.value, two.sampled / two.value) if row.sampled else 0.0
            error = math.hypot(row.error, steps)
            half = student(LEVEL, int(row.freedom)) * error
            delta, low, high = (expected * math.expm1(row.log + at * half) for at in (0, -1, 1))
            chance = two_sided(row.log / error, row.freedom)
            kind = Kind.CHANGED  # a row has an error where both sides have time
            found.append((Change(row.part, row.other[2], row.work, one, two, expected, kind, delta, low, high), chance))
        else:  # too small to say anything of its class, too
            found.append(alone(row.part, row.other[2], row.work, one, two, factors[row.work]))
    return _moved(believed(found, step, _matters(before, after)))


def alone(part: Part, name_after: str, work: str, one: Mean, two: Mean, factor: Factor) -> tuple[Change, float]:
    """The change of a part that says nothing of its class, of one side alone for example, and how often chance makes as large a one."""
    expected = one.value * math.exp(factor.log)
    kind = Kind.NEW if one.value == 0 else Kind.GONE if two.value == 0 else Kind.CHANGED
    delta, freedom = two.value - expected, min(one.freedom, two.freedom)
    error = math.hypot(one.error, two.error, factor.spread * expected)
    half = student(LEVEL, freedom) * error
    chance = two_sided(delta / error, freedom) if error else 1.0
    return Change(part, name_after, work, one, two, expected, kind, delta, delta - half, delta + half), chance


def believed(found: Sequence[tuple[Change, float]], step: float, matters: float = MATTERS) -> list[Change]:
    """Changes with their chances; those that chance or the machine may have made, or that do not matter, are the machine's."""
    heavy = [at for at, (each, _) in enumerate(found) if max(each.before.value, each.after.value) >= SEEN * step]
    are_sure = discoveries([found[at][1] for at in heavy], FALSE)
    sure = {at for at, is_sure in zip(heavy, are_sure, strict=True) if is_sure and abs(found[at][0].delta) >= matters * step}
    return [each if at in sure else replace(each, kind=Kind.MACHINE) for at, (each, _) in enumerate(found)]


def _moved(changes: list[Change]) -> list[Change]:
    """Of the program's changes, those that only change places: one that goes for one that comes in the same class, of about the same time."""
    own = sorted((each for each in changes if each.kind is not Kind.MACHINE), key=lambda each: -abs(each.delta))
    partner: dict[Part, Part] = {}
    for one in own:
        for two in own:
            if one.part in partner or two.part in partner or one.delta * two.delta >= 0 or one.work != two.work:
                continue
            if abs(one.delta + two.delta) <= _CANCELS * max(abs(one.delta), abs(two.delta)):
                partner[one.part], partner[two.part] = two.part, one.part
    return [replace(each, kind=Kind.MOVED) if each.part in partner else each for each in changes]

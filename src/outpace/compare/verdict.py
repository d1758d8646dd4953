"""What changed between two sides, and whether the program did it or the machine.

A machine that is slower, or busy with something else, changes a *class of work* by one factor: dense ops, elementwise ops, Python, copies,
input, devices. So each capture has a factor for each class, the middle of its parts' log ratios to their mean over all captures; without it
captures of one program agree far better than they do as they are. What is left of a part's difference between the sides is the program's
where it exceeds its error by a test that keeps the rate of false discoveries among all parts, and where it matters to the step. The error is
how far captures of one side differ in the part, mixed with what they do in others of its class; with one capture a side, how far the parts of
the class lie from its factor, mixed with a stated prior. Time that appears in one place and goes in another of the same class has moved.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from statistics import median
from typing import NamedTuple

import numpy as np

from outpace._dataclass import dataclass
from outpace.compare.means import BETWEEN, Mean, discoveries, mean_of, two_sided
from outpace.compare.side import ON_DEVICE, SHARED, Part, Side, class_of
from outpace.model import Category
from outpace.model.arrays import Values
from outpace.tune.trial.statistics import LEVEL, student

EFFECT = 0.05  # of a step: less is no difference
FALSE = 0.05  # share of parts that are called changed and are not
MATTERS = 0.005  # of a step, that a part must change by
SEEN = 0.002  # of a step, below which a part says nothing of its class
SPREAD = {False: 0.06, True: 0.02}  # prior sd of log ratios within a class: on a host's cores, on devices
_WEIGHT = 4.0  # parts that the prior counts for
_FEW, _ALONE = 3, 2.0  # parts that do not speak for their class, and how much wider the prior is then
_MODERATE = 2  # degrees of freedom, from which captures say how far captures differ
_HALF = 1.96  # standard errors: half of a 95% interval of a normal number
_MAD = 1.4826  # times the median absolute deviation is the standard deviation of normal numbers
_CANCELS = 0.25  # of two changes, that may be left of them where time has moved
_COUNTER = re.compile(r"(?<=[A-Za-z])_?\d+\b|\.\d+\b")  # what a framework appends to tell names apart


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
        return self.name_after if self.kind is Kind.NEW else self.part[2]


@dataclass(frozen=True)
class Factor:
    """By how much a class of work takes longer (log), how far its parts lie from that (sd of the log), and how many parts say so."""

    log: float
    spread: float
    parts: int


@dataclass(frozen=True)
class _Row:
    """One part on both sides. means: of each capture, ps, those of the first side first; log: what the second side takes longer, without its
    class; error: of that."""

    part: Part
    other: Part
    work: str
    means: tuple[float, ...]
    log: float = 0.0
    error: float = 0.0


@dataclass(frozen=True, eq=False)
class Comparison:
    """ratio, low, high: of the step time, after to before. step_expected: what a step of the first program would take with the second side's
    machine, ps. program: what the program's own changes add to that, as a share of it, with `program_low` and `program_high`. least, most: what
    the program adds at least and at most, all parts together. differs: facts in which the sides differ, with whether that forbids to
    compare."""

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
    changes: tuple[Change, ...]
    factors: Mapping[str, Factor]
    differs: tuple[tuple[str, str, str, bool], ...]
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
        return tuple(each for each in self.changes if each.kind in (Kind.CHANGED, Kind.NEW, Kind.GONE))


def compare(before: Side, after: Side, effect: float = EFFECT) -> Comparison:
    """Compare two sides. effect: the least share of a step that counts."""
    step_before, step_after = before.step, after.step
    count = len(before.captures)
    rows = [
        _Row(one, two, class_of(one), tuple(float(times.mean()) for times in (*before.times(one), *after.times(two))))
        for one, two in _pairs(before, after)
    ]
    rows, factors = _judged(rows, count, step_before.value)
    changes = _changes(rows, factors, before, after, step_before.value)
    blind = not any(each.parts >= _FEW for each in factors.values())  # nothing speaks of the machine
    if blind:
        changes = [replace(each, kind=Kind.MACHINE) if each.kind is Kind.CHANGED else each for each in changes]
    own = [each for each in changes if each.kind in (Kind.CHANGED, Kind.NEW, Kind.GONE)]
    low, high = _interval(before, after, step_before, step_after)
    step = step_before.value * _slowed(changes)
    program = summed(own, step)
    every = summed([each for each in changes if each.kind is not Kind.MOVED], step)
    if blind:
        every = Added(step_after.value / step_before.value - 1, low - 1, high - 1)
    verdict = _verdict(step_before, step_after, own, program, every, blind, effect)
    categories = {
        each: (mean_of([c.categories[each] for c in before.captures]), mean_of([c.categories[each] for c in after.captures]))
        for each in Category
    }
    return Comparison(
        before, after, verdict, step_before, step_after, step, low, high, *program, every.low, every.high,
        tuple(sorted(changes, key=lambda each: -abs(each.delta))), factors, _differs(before, after), categories,
    )  # fmt: skip


def _slowed(changes: Sequence[Change]) -> float:
    """How many times as long the machine alone makes all parts."""
    before = math.fsum(each.before.value for each in changes)
    return math.fsum(each.expected for each in changes) / before if before else 1.0


class Added(NamedTuple):
    """What is added to a step, with its interval."""

    value: float
    low: float
    high: float


def summed(changes: Sequence[Change], step: float = 1.0) -> Added:
    """What changes add to a step, as a share of it (in ps without one)."""
    value = math.fsum(each.delta for each in changes) / step
    half = math.sqrt(math.fsum(((each.high - each.low) / 2) ** 2 for each in changes)) / step
    return Added(value, value - half, value + half)


def _interval(before: Side, after: Side, one: Mean, two: Mean) -> tuple[float, float]:
    """Of the ratio of step times: with the spread from capture to capture, their own where there are enough."""
    log = math.log(two.value / one.value)
    prior = BETWEEN[before.on_device and after.on_device]
    variance = 0.0
    for side, mean in ((before, one), (after, two)):
        variance += mean.relative**2 + (0.0 if mean.captures else prior**2 / len(side.captures))
    times = student(LEVEL, min(one.freedom, two.freedom)) if one.captures and two.captures else _HALF
    half = times * math.sqrt(variance)
    return math.exp(log - half), math.exp(log + half)


def _verdict(one: Mean, two: Mean, own: Sequence[Change], program: Added, every: Added, blind: bool, effect: float) -> Verdict:
    if own and not program.low <= 0 <= program.high:
        return Verdict.SLOWER if program.low > 0 else Verdict.FASTER
    log, bound = math.log(two.value / one.value), max(every.high, -every.low)
    if blind:
        if every.low > effect or every.high < 1 / (1 + effect) - 1:
            return Verdict.SLOWER if log > 0 else Verdict.FASTER
        return Verdict.SAME if bound <= effect else Verdict.OPEN
    if own:
        return Verdict.OPEN
    if bound <= effect:
        return Verdict.SAME if abs(log) <= effect else Verdict.MACHINE
    steps = _HALF * math.hypot(one.relative, two.relative)  # of these captures alone, without what another one would have told
    return Verdict.MACHINE if abs(log) - steps > effect else Verdict.OPEN


def _pairs(before: Side, after: Side) -> list[tuple[Part, Part]]:
    """Parts of both sides: by name, then by what the name is without its counters, in order; what is left stands alone, as the same part of the
    side that has none of it."""
    here, there = set(before.parts), set(after.parts)
    pairs = [(part, part) for part in before.parts if part in there]
    alone = [part for part in before.parts if part not in there]
    waiting: dict[tuple[str, ...], list[Part]] = {}
    for part in after.parts:
        if part not in here:
            waiting.setdefault(_plain(part), []).append(part)
    for part in alone:
        others = waiting.get(_plain(part))
        pairs.append((part, others.pop(0) if others else part))
    known = {two for _, two in pairs}
    pairs += [(part, part) for parts in waiting.values() for part in parts if part not in known]
    return pairs


def _plain(part: Part) -> tuple[str, ...]:
    return part[0], part[1], _COUNTER.sub("", part[2])


def _judged(rows: Sequence[_Row], count: int, step: float) -> tuple[list[_Row], dict[str, Factor]]:
    """The rows with what is left of their difference without their class, and the classes. count: captures of the first side."""
    told = [row for row in rows if min(row.means) > 0 and max(row.means) >= SEEN * step]
    logs = {id(row): np.log(row.means) - np.log(row.means).mean() for row in told}
    works = {work: [row for row in told if row.work == work] for work in sorted({row.work for row in rows})}
    captures = len(rows[0].means) if rows else 0
    usual = np.median([logs[id(row)] for row in told], axis=0) if len(told) >= _FEW else np.zeros(captures)
    found: dict[int, tuple[float, float]] = {}
    factors = {}
    for work, mine in works.items():
        prior = SPREAD[work == ON_DEVICE]
        few = len(mine) < _FEW  # it may be the program's change itself: all that is known is what the others say
        factor = usual if few else np.median([logs[id(row)] for row in mine], axis=0)
        left = {id(row): logs[id(row)] - factor for row in mine}
        away = {key: float(those[count:].mean() - those[:count].mean()) for key, those in left.items()}
        spread = _spread(list(away.values()), _ALONE * prior if few else prior, few)
        within = {key: _within(those, count) for key, those in left.items()}
        usual_within = float(np.median(list(within.values()))) if within else 0.0
        freedom = captures - 2
        for key in left:
            if freedom < _MODERATE:  # captures say little of how far captures differ
                found[key] = away[key], spread
            else:
                variance = (_WEIGHT * usual_within + freedom * within[key]) / (_WEIGHT + freedom)
                found[key] = away[key], math.sqrt(variance * (1 / count + 1 / (captures - count)))
        log = float(factor[count:].mean() - factor[:count].mean())
        factors[work] = Factor(log, spread, len(mine))
    return [replace(row, log=found[id(row)][0], error=found[id(row)][1]) if id(row) in found else row for row in rows], factors


def _spread(away: Sequence[float], prior: float, few: bool) -> float:
    """How far parts of a class lie from its factor."""
    if few:
        return prior
    middle = median(away)
    deviation = _MAD * median(abs(each - middle) for each in away)
    return math.sqrt((_WEIGHT * prior**2 + len(away) * deviation**2) / (_WEIGHT + len(away)))


def _within(logs: Values, count: int) -> float:
    """Variance of a part among captures of one side."""
    sides = (logs[:count], logs[count:])
    freedom = len(logs) - 2
    return float(sum(((side - side.mean()) ** 2).sum() for side in sides)) / freedom if freedom > 0 else 0.0


def _changes(rows: Sequence[_Row], factors: Mapping[str, Factor], before: Side, after: Side, step: float) -> list[Change]:
    count = len(before.captures)
    found = []
    for row in rows:
        one, two = (mean_of(side.times(part)) for side, part in ((before, row.part), (after, row.other)))
        if row.error:
            expected = one.value * math.exp(factors[row.work].log)
            sampled = math.hypot(one.relative, two.relative) if count == 1 and len(row.means) == 2 else 0.0
            error = math.hypot(row.error, sampled)
            delta, low, high = (expected * math.expm1(row.log + at * _HALF * error) for at in (0, -1, 1))
            chance = two_sided(row.log / error)
            kind = Kind.CHANGED  # a row has an error where both sides have time
            found.append((Change(row.part, row.other[2], row.work, one, two, expected, kind, delta, low, high), chance))
        else:  # too small to say anything of its class, too
            found.append(alone(row.part, row.other[2], row.work, one, two, factors[row.work]))
    return _moved(believed(found, step))


def alone(part: Part, name_after: str, work: str, one: Mean, two: Mean, factor: Factor) -> tuple[Change, float]:
    """The change of a part that says nothing of its class, of one side alone for example, and how often chance makes as large a one."""
    expected = one.value * math.exp(factor.log)
    kind = Kind.NEW if one.value == 0 else Kind.GONE if two.value == 0 else Kind.CHANGED
    delta = two.value - expected
    half = _HALF * math.hypot(one.error, two.error, factor.spread * expected)
    chance = two_sided(_HALF * delta / half) if half else 1.0
    return Change(part, name_after, work, one, two, expected, kind, delta, delta - half, delta + half), chance


def believed(found: Sequence[tuple[Change, float]], step: float) -> list[Change]:
    """Changes with their chances; those that chance or the machine may have made are the machine's."""
    heavy = [at for at, (each, _) in enumerate(found) if max(each.before.value, each.after.value) >= SEEN * step]
    are_sure = discoveries([found[at][1] for at in heavy], FALSE)
    sure = {at for at, is_sure in zip(heavy, are_sure, strict=True) if is_sure and abs(found[at][0].delta) >= MATTERS * step}
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


def _differs(before: Side, after: Side) -> tuple[tuple[str, str, str, bool], ...]:
    one, two = before.facts, after.facts
    return tuple(
        (name, one.get(name, ""), two.get(name, ""), name in SHARED)
        for name in dict.fromkeys((*one, *two))
        if one.get(name, "") != two.get(name, "")
    )

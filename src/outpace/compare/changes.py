"""What became of each part: whether the program changed it or the machine, and by how much.

What a part takes beyond its class of work (`machine.py`) is the program's where it exceeds its error by a test that keeps the rate of false
discoveries among all parts, and where it matters to the step. Time that appears in one place and goes in another of the same class has moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from outpace._dataclass import dataclass
from outpace.compare.machine import SEEN, TAILS, Factor, Row
from outpace.compare.means import Mean, combined, discoveries, two_sided
from outpace.compare.sampled import Line, by_line
from outpace.compare.side import BESIDE, Part, Side
from outpace.tune.trial.statistics import LEVEL, student

FALSE = 0.05  # share of parts that are called changed and are not
MATTERS, MATTERS_OF_FEW = 0.005, 0.01  # of a step, that a part must change by
ENOUGH = 3  # captures of each side, which show by how much one op differs from process to process, where its arrays lie in memory for example
_CANCELS = 0.25  # of two changes, that may be left of them where time has moved
_EXPLAINS = 0.5  # of the growth of the time in which no op runs, that new lines of Python must take to say whose it is


class Kind(str, Enum):
    """What became of a part."""

    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    MOVED = "moved"
    MACHINE = ""  # as its class


OWN = (Kind.CHANGED, Kind.NEW, Kind.GONE)


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


class Share(NamedTuple):
    """What is added to a step, as a share of it, with its 95% interval. It takes no more from a step than the step has."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2

    @property
    def sure(self) -> bool:
        """Whether the interval excludes that nothing is added."""
        return not self.low <= 0 <= self.high

    def joined(self, other: Share) -> Share:
        """The same, with an interval that also holds the other's."""
        return Share(self.value, min(self.low, other.low), max(self.high, other.high))


NOTHING = Share(0.0, 0.0, 0.0)


def share(value: float, low: float, high: float) -> Share:
    """What is added to a step, which loses at most all of itself."""
    return Share(max(value, -1.0), max(low, -1.0), max(high, -1.0))


def summed(changes: Sequence[Change], step: float) -> Share:
    """What changes add to a step."""
    return share(*(each / step for each in total(changes)))


def total(changes: Sequence[Change]) -> tuple[float, float, float]:
    """The sum of changes with its interval, ps. Their errors are independent, and each is as lopsided as a ratio's is."""
    value = math.fsum(each.delta for each in changes)
    below = _half([each.delta - each.low for each in changes])
    above = _half([each.high - each.delta for each in changes])
    return value, value - below, value + above


def _half(halves: Sequence[float]) -> float:
    """Half of the interval of a sum, by those of what is added: of many it is the normal one, of one alone it is that one's (degrees of freedom
    of a sum by Welch 1947 and Satterthwaite 1946)."""
    squares = math.fsum(half**2 for half in halves)
    if not squares:
        return 0.0
    freedom = TAILS * squares**2 / math.fsum(half**4 for half in halves)
    return math.sqrt(squares) * student(LEVEL, round(freedom)) / student(LEVEL, TAILS)


def bounded(changes: Sequence[Change], step: float) -> Share:
    """What all changes add to a step at least and at most. What those seem to add that are not the program's is no sure gain that pays for a
    loss of the program's, nor the reverse: it widens the interval only."""
    value = math.fsum(each.delta for each in changes if each.kind is not Kind.MACHINE)
    every, low, high = total(changes)
    return share(value / step, (low - max(every - value, 0.0)) / step, (high + max(value - every, 0.0)) / step)


def matters(before: Side, after: Side) -> float:
    """Share of a step that a part must change by to be told."""
    return MATTERS if min(len(before.captures), len(after.captures)) >= ENOUGH else MATTERS_OF_FEW


def changes_of(rows: Sequence[Row], factors: Mapping[str, Factor], before: Side, after: Side, step: float) -> list[Change]:
    """What became of each part. step: the time of the faster side's step, ps."""
    found = []
    lines = _new_lines(before, after)
    for row in rows:
        one, two = before.mean(row.part), after.mean(row.other)
        if row.error:
            found.append(_with_lines(_of_row(row, one, two, factors[row.work]), lines))
        else:  # too small to say anything of its class, too
            found.append(alone(row.part, row.other[2], row.work, one, two, factors[row.work]))
    return _moved(believed(found, step, matters(before, after)))


def _of_row(row: Row, one: Mean, two: Mean, factor: Factor) -> tuple[Change, float]:
    """The change of a part of which its class says how sure it is, and how often chance makes as large a one."""
    expected = one.value * math.exp(factor.log)
    steps = math.hypot(one.sampled / one.value, two.sampled / two.value) if row.sampled else 0.0
    error = math.hypot(row.error, steps)
    half = student(LEVEL, int(row.freedom)) * error
    delta, low, high = (expected * math.expm1(row.log + at * half) for at in (0, -1, 1))
    chance = two_sided(row.log / error, row.freedom)
    return Change(row.part, row.other[2], row.work, one, two, expected, Kind.CHANGED, delta, low, high), chance


def alone(part: Part, name_after: str, work: str, one: Mean, two: Mean, factor: Factor) -> tuple[Change, float]:
    """The change of a part that says nothing of its class, of one side alone for example, and how often chance makes as large a one."""
    expected = one.value * math.exp(factor.log)
    kind = Kind.NEW if one.value == 0 else Kind.GONE if two.value == 0 else Kind.CHANGED
    delta, freedom = two.value - expected, min(one.freedom, two.freedom)
    apart = math.hypot(one.error, two.error)
    error = math.hypot(apart, factor.spread * expected)
    half = student(LEVEL, freedom) * error
    unlike = error if kind is Kind.CHANGED else apart  # no machine makes all of a part go, or come
    chance = two_sided(delta / unlike, freedom) if unlike else 1.0
    return Change(part, name_after, work, one, two, expected, kind, delta, delta - half, delta + half), chance


def believed(found: Sequence[tuple[Change, float]], step: float, matters: float = MATTERS) -> list[Change]:
    """Changes with their chances; those that chance or the machine may have made, or that do not matter, are the machine's."""
    heavy = [at for at, (each, _) in enumerate(found) if max(each.before.value, each.after.value) >= SEEN * step]
    are_sure = discoveries([found[at][1] for at in heavy], FALSE)
    sure = {at for at, is_sure in zip(heavy, are_sure, strict=True) if is_sure and abs(found[at][0].delta) >= matters * step}
    return [each if at in sure else replace(each, kind=Kind.MACHINE) for at, (each, _) in enumerate(found)]


def _new_lines(before: Side, after: Side) -> Mean | None:
    """What lines of Python take that one side alone has, ps per step: more than 0 where they are new. None where a side has no samples."""
    one, two = (by_line(side.captures) for side in (before, after))
    if not one or not two:
        return None
    new = [combined(_times(two[key]), after.between) for key in two.keys() - one.keys()]
    gone = [combined(_times(one[key]), before.between) for key in one.keys() - two.keys()]
    value = math.fsum(each.value for each in new) - math.fsum(each.value for each in gone)
    errors = [each.error for each in (*new, *gone)]
    return Mean(value, math.hypot(*errors), math.hypot(*errors), min((each.freedom for each in (*new, *gone)), default=1))


def _times(told: Sequence[Line | None]) -> list[tuple[float, float]]:
    return [(line.time, line.error) if line is not None else (0.0, 0.0) for line in told]


def _with_lines(found: tuple[Change, float], lines: Mean | None) -> tuple[Change, float]:
    """The change of the time in which no op runs, by the lines that are new where these explain most of it: no machine writes a line, so that
    their samples measure it, and not how far classes of work lie apart."""
    change, chance = found
    if lines is None or change.part[0] != BESIDE or not lines.error or lines.value * change.delta <= 0:
        return found
    if not _EXPLAINS <= lines.value / change.delta <= 1 / _EXPLAINS:
        return found
    error = math.hypot(lines.error, change.delta - lines.value)
    half = student(LEVEL, lines.freedom) * error
    if 2 * half >= change.high - change.low:
        return found
    less = two_sided(change.delta / error, lines.freedom)
    return replace(change, low=change.delta - half, high=change.delta + half), min(chance, less)


def _moved(changes: list[Change]) -> list[Change]:
    """Of the program's changes, those that only change places: one that goes for one that comes in the same class, of about the same time."""
    own = sorted((each for each in changes if each.kind is not Kind.MACHINE), key=lambda each: -abs(each.delta))
    partner: dict[Part, Part] = {}
    for one, two in _opposite(own):
        if one.part not in partner and two.part not in partner:
            partner[one.part], partner[two.part] = two.part, one.part
    return [replace(each, kind=Kind.MOVED) if each.part in partner else each for each in changes]


def _opposite(own: Sequence[Change]) -> Iterator[tuple[Change, Change]]:
    """Pairs of one class of which one takes about as much more as the other takes less."""
    for one in own:
        for two in own:
            left, larger = abs(one.delta + two.delta), max(abs(one.delta), abs(two.delta))
            if one.work == two.work and one.delta * two.delta < 0 and left <= _CANCELS * larger:
                yield one, two

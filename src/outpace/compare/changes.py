"""What became of each part: whether the program changed it or the machine, and by how much.

What a part takes beyond its class of work (`machine.py`) is the program's where it exceeds its
error by a test that keeps the rate of false discoveries among all parts, and where it matters to
the step. Time that appears in one place and goes in another of the same class has moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from outpace._dataclass import dataclass
from outpace.compare.machine_model import MIN_PART_SHARE, TAIL_FREEDOM, Factor, PartRow
from outpace.compare.means import Mean, benjamini_hochberg, combine_means, two_sided_p_value
from outpace.compare.sampled_lines import SampledLine, group_by_line
from outpace.compare.side import STEP_SIDE, PartKey, Side
from outpace.tune.trial.statistics import LEVEL, student

FALSE_DISCOVERY_RATE = 0.05  # share of parts that are called changed and are not
MIN_CHANGE, MIN_CHANGE_FEW_CAPTURES = 0.005, 0.01  # of a step, that a part must change by
MIN_CAPTURES = 3  # captures of each side, which show by how much one op differs from process to process, where its arrays lie in memory for example
_CANCELS = 0.25  # of two changes, that may be left of them where time has moved
_EXPLAINS = 0.5  # of the growth of the time in which no op runs, that new lines of Python must take to say whose it is


class ChangeKind(str, Enum):
    """What became of a part."""

    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    MOVED = "moved"
    MACHINE = ""  # as its class


PROGRAM_KINDS = (ChangeKind.CHANGED, ChangeKind.NEW, ChangeKind.GONE)


@dataclass(frozen=True)
class Change:
    """One part on both sides. name_after: what it is called on the second one. before, after: per
    step; expected: `before` by the factor of its class, ps; kind: what became of it; delta: how
    much more it takes than its class would have it, ps, with its interval.
    """

    part: PartKey
    name_after: str
    work_class: str
    before: Mean
    after: Mean
    expected_ps: float
    kind: ChangeKind
    delta_ps: float
    low_ps: float
    high_ps: float

    @property
    def label(self) -> str:
        """What people know it by."""
        name = self.name_after if self.kind is ChangeKind.NEW else self.part[2]
        return f"{self.work_class} ({name})" if self.part[0] == STEP_SIDE else name


class ShareEstimate(NamedTuple):
    """What is added to a step, as a share of it, with its 95% interval. It takes no more from a
    step than the step has.
    """

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes that nothing is added."""
        return not self.low <= 0 <= self.high

    def union(self, other: ShareEstimate) -> ShareEstimate:
        """The same, with an interval that also holds the other's."""
        return ShareEstimate(self.value, min(self.low, other.low), max(self.high, other.high))


ZERO_SHARE = ShareEstimate(0.0, 0.0, 0.0)


def clamp_share(value: float, low: float, high: float) -> ShareEstimate:
    """What is added to a step, which loses at most all of itself."""
    return ShareEstimate(max(value, -1.0), max(low, -1.0), max(high, -1.0))


def compute_share(changes: Sequence[Change], step: float) -> ShareEstimate:
    """What changes add to a step."""
    return clamp_share(*(each / step for each in sum_changes(changes)))


def sum_changes(changes: Sequence[Change]) -> tuple[float, float, float]:
    """The sum of changes with its interval, ps. Their errors are independent, and each is as
    lopsided as a ratio's is.
    """
    value = math.fsum(each.delta_ps for each in changes)
    below = _half([each.delta_ps - each.low_ps for each in changes])
    above = _half([each.high_ps - each.delta_ps for each in changes])
    return value, value - below, value + above


def _half(halves: Sequence[float]) -> float:
    """Half of the interval of a sum, by those of what is added: of many it is the normal one, of
    one alone it is that one's (degrees of freedom of a sum by Welch 1947 and Satterthwaite 1946).
    """
    squares = math.fsum(half**2 for half in halves)
    if not squares:
        return 0.0
    freedom = TAIL_FREEDOM * squares**2 / math.fsum(half**4 for half in halves)
    return math.sqrt(squares) * student(LEVEL, round(freedom)) / student(LEVEL, TAIL_FREEDOM)


def compute_share_bounds(changes: Sequence[Change], step: float) -> ShareEstimate:
    """What all changes add to a step at least and at most. What those seem to add that are not the
    program's is no sure gain that pays for a loss of the program's, nor the reverse: it widens the
    interval only.
    """
    value = math.fsum(each.delta_ps for each in changes if each.kind is not ChangeKind.MACHINE)
    every, low, high = sum_changes(changes)
    return clamp_share(value / step, (low - max(every - value, 0.0)) / step, (high + max(value - every, 0.0)) / step)


def compute_min_change(before: Side, after: Side) -> float:
    """Share of a step that a part must change by to be told."""
    return MIN_CHANGE if min(len(before.captures), len(after.captures)) >= MIN_CAPTURES else MIN_CHANGE_FEW_CAPTURES


def compute_changes(
    rows: Sequence[PartRow], factors: Mapping[str, Factor], before: Side, after: Side, step: float
) -> list[Change]:
    """What became of each part. step: the time of the faster side's step, ps."""
    found = []
    lines = _new_lines(before, after)
    for row in rows:
        one, two = before.part_mean(row.part), after.part_mean(row.part_after)
        if row.error:
            found.append(_with_lines(_of_row(row, one, two, factors[row.work_class]), lines))
        else:  # too small to say anything of its class, too
            found.append(compute_change(row.part, row.part_after[2], row.work_class, one, two, factors[row.work_class]))
    return _moved(mark_significant(found, step, compute_min_change(before, after)))


def _of_row(row: PartRow, one: Mean, two: Mean, factor: Factor) -> tuple[Change, float]:
    """The change of a part of which its class says how sure it is, and how often chance makes as
    large a one.
    """
    expected = one.value * math.exp(factor.log_factor)
    steps = math.hypot(one.sampling_error / one.value, two.sampling_error / two.value) if row.sampled else 0.0
    error = math.hypot(row.error, steps)
    half = student(LEVEL, int(row.freedom)) * error
    delta, low, high = (expected * math.expm1(row.log_ratio + at * half) for at in (0, -1, 1))
    chance = two_sided_p_value(row.log_ratio / error, row.freedom)
    return Change(row.part, row.part_after[2], row.work_class, one, two, expected, ChangeKind.CHANGED, delta, low, high), chance


def compute_change(
    part: PartKey, name_after: str, work: str, before: Mean, after: Mean, factor: Factor
) -> tuple[Change, float]:
    """The change of a part that says nothing of its class, of one side alone for example, and how
    often chance makes as large a one.
    """
    expected = before.value * math.exp(factor.log_factor)
    kind = ChangeKind.NEW if before.value == 0 else ChangeKind.GONE if after.value == 0 else ChangeKind.CHANGED
    delta, freedom = after.value - expected, min(before.freedom, after.freedom)
    apart = math.hypot(before.error, after.error)
    error = math.hypot(apart, factor.spread * expected)
    half = student(LEVEL, freedom) * error
    unlike = error if kind is ChangeKind.CHANGED else apart  # no machine makes all of a part go, or come
    chance = two_sided_p_value(delta / unlike, freedom) if unlike else 1.0
    return Change(part, name_after, work, before, after, expected, kind, delta, delta - half, delta + half), chance


def mark_significant(changes: Sequence[tuple[Change, float]], step: float, min_change: float = MIN_CHANGE) -> list[Change]:
    """Changes with their chances; those that chance or the machine may have made, or that do not
    matter, are the machine's.
    """
    heavy = [at for at, (each, _) in enumerate(changes) if max(each.before.value, each.after.value) >= MIN_PART_SHARE * step]
    are_sure = benjamini_hochberg([changes[at][1] for at in heavy], FALSE_DISCOVERY_RATE)
    sure = {
        at for at, is_sure in zip(heavy, are_sure, strict=True) if is_sure and abs(changes[at][0].delta_ps) >= min_change * step
    }
    return [each if at in sure else replace(each, kind=ChangeKind.MACHINE) for at, (each, _) in enumerate(changes)]


def _new_lines(before: Side, after: Side) -> Mean | None:
    """What lines of Python take that one side alone has, ps per step: more than 0 where they are
    new. None where a side has no samples.
    """
    one, two = (group_by_line(side.captures) for side in (before, after))
    if not one or not two:
        return None
    new = [combine_means(_times(two[key]), after.capture_log_sd) for key in two.keys() - one.keys()]
    gone = [combine_means(_times(one[key]), before.capture_log_sd) for key in one.keys() - two.keys()]
    value = math.fsum(each.value for each in new) - math.fsum(each.value for each in gone)
    errors = [each.error for each in (*new, *gone)]
    return Mean(value, math.hypot(*errors), math.hypot(*errors), min((each.freedom for each in (*new, *gone)), default=1))


def _times(told: Sequence[SampledLine | None]) -> list[tuple[float, float]]:
    return [(line.time_ps, line.error_ps) if line is not None else (0.0, 0.0) for line in told]


def _with_lines(found: tuple[Change, float], lines: Mean | None) -> tuple[Change, float]:
    """The change of the time in which no op runs, by the lines that are new where these explain
    most of it: no machine writes a line, so that their samples measure it, and not how far classes
    of work lie apart.
    """
    change, chance = found
    if lines is None or change.part[0] != STEP_SIDE or not lines.error or lines.value * change.delta_ps <= 0:
        return found
    if not _EXPLAINS <= lines.value / change.delta_ps <= 1 / _EXPLAINS:
        return found
    error = math.hypot(lines.error, change.delta_ps - lines.value)
    half = student(LEVEL, lines.freedom) * error
    if 2 * half >= change.high_ps - change.low_ps:
        return found
    less = two_sided_p_value(change.delta_ps / error, lines.freedom)
    return replace(change, low_ps=change.delta_ps - half, high_ps=change.delta_ps + half), min(chance, less)


def _moved(changes: list[Change]) -> list[Change]:
    """Of the program's changes, those that only change places: one that goes for one that comes in
    the same class, of about the same time.
    """
    own = sorted((each for each in changes if each.kind is not ChangeKind.MACHINE), key=lambda each: -abs(each.delta_ps))
    partner: dict[PartKey, PartKey] = {}
    for one, two in _opposite(own):
        if one.part not in partner and two.part not in partner:
            partner[one.part], partner[two.part] = two.part, one.part
    return [replace(each, kind=ChangeKind.MOVED) if each.part in partner else each for each in changes]


def _opposite(own: Sequence[Change]) -> Iterator[tuple[Change, Change]]:
    """Pairs of one class of which one takes about as much more as the other takes less."""
    for one in own:
        for two in own:
            left, larger = abs(one.delta_ps + two.delta_ps), max(abs(one.delta_ps), abs(two.delta_ps))
            if one.work_class == two.work_class and one.delta_ps * two.delta_ps < 0 and left <= _CANCELS * larger:
                yield one, two

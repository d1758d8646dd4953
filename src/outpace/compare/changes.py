# SPDX-License-Identifier: Apache-2.0
"""Classification of each part's change: by the program or by the machine, and by how much.

The time of a part beyond the factor of its class of work (`machine_model.py`) is attributed to the
program where it exceeds its error by a test that controls the false discovery rate over all parts,
and where it is large enough to matter to the step. Time that appears in one part and disappears
from another part of the same class has moved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import combinations
from typing import NamedTuple

from outpace._dataclass import dataclass
from outpace.compare.machine_model import MIN_PART_SHARE, TAIL_FREEDOM, Factor, PartRow
from outpace.compare.sampled_lines import group_by_line, line_mean
from outpace.compare.side import STEP_SIDE, PartKey, Side
from outpace.stats.discoveries import benjamini_hochberg, two_sided_p_value
from outpace.stats.intervals import LEVEL, student
from outpace.stats.means import Mean

FALSE_DISCOVERY_RATE = 0.05  # false discovery rate: share of the parts reported as changed that did not change
MIN_CHANGE, MIN_CHANGE_FEW_CAPTURES = 0.005, 0.01  # minimum change of a part, as a share of a step
# minimum number of captures per side that show how much one op varies between processes, for
# example with the addresses of its arrays
MIN_CAPTURES = 3
_CANCELS = 0.25  # maximum remainder of two opposite changes, as a share, for their time to count as moved
# minimum share of the growth of the time in which no op runs that new lines of Python must explain
# for the growth to be the program's
_EXPLAINS = 0.5


class ChangeKind(str, Enum):
    """Classification of a part's change."""

    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    MOVED = "moved"
    MACHINE = ""  # no change beyond that of the part's class of work


PROGRAM_KINDS = (ChangeKind.CHANGED, ChangeKind.NEW, ChangeKind.GONE)


@dataclass(frozen=True)
class Change:
    """One part on both sides of a comparison.

    part: key of the part on the first side (on the second for a new part)
    name_after: name of the part on the second side
    work_class: class of work that the part belongs to
    before, after: mean time per step on each side
    expected_ps: `before` times the factor of the work class, ps
    kind: classification of the change
    delta_ps: time per step beyond what the class's factor predicts, ps
    low_ps, high_ps: 95% interval of `delta_ps`, ps
    p_value: probability of such a difference by chance
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
    p_value: float

    @property
    def label(self) -> str:
        """Name of the part as messages show it."""
        name = self.name_after if self.kind is ChangeKind.NEW else self.part[2]
        return f"{self.work_class} ({name})" if self.part[0] == STEP_SIDE else name


class ShareEstimate(NamedTuple):
    """Time added to a step, as a share of the step, with its 95% interval. A step cannot lose more
    than all of its time.
    """

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the width of the interval."""
        return (self.high - self.low) / 2

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes zero, that is, no time added."""
        return not self.low <= 0 <= self.high

    def union(self, other: ShareEstimate) -> ShareEstimate:
        """Return this share with its interval extended to include the other's interval."""
        return ShareEstimate(self.value, min(self.low, other.low), max(self.high, other.high))


ZERO_SHARE = ShareEstimate(0.0, 0.0, 0.0)


def clamp_share(value: float, low: float, high: float) -> ShareEstimate:
    """Return a share estimate whose loss is limited to the whole step."""
    return ShareEstimate(max(value, -1.0), max(low, -1.0), max(high, -1.0))


def compute_share(changes: Sequence[Change], step: float) -> ShareEstimate:
    """Return the time that changes add to a step of `step` ps, as a share."""
    return clamp_share(*(time_ps / step for time_ps in sum_changes(changes)))


def sum_changes(changes: Sequence[Change]) -> tuple[float, float, float]:
    """Return (sum, low, high) of changes with the 95% interval, ps. The errors of the changes are
    independent, and each is asymmetric as the error of a ratio is.
    """
    value = math.fsum(change.delta_ps for change in changes)
    low_half = _half([change.delta_ps - change.low_ps for change in changes])
    high_half = _half([change.high_ps - change.delta_ps for change in changes])
    return value, value - low_half, value + high_half


def _half(halves: Sequence[float]) -> float:
    """Return half of the interval of a sum from those of its terms: normal for a sum of many terms,
    and exactly that of the term where there is one (degrees of freedom of a sum by Welch 1947
    and Satterthwaite 1946).
    """
    squares = math.fsum(half**2 for half in halves)
    if not squares:
        return 0.0
    freedom = TAIL_FREEDOM * squares**2 / math.fsum(half**4 for half in halves)
    return math.sqrt(squares) * student(LEVEL, round(freedom)) / student(LEVEL, TAIL_FREEDOM)


def compute_share_bounds(changes: Sequence[Change], step: float) -> ShareEstimate:
    """Return the least and the most that all changes add to a step. An apparent change that is not
    the program's cannot offset a loss or a gain of the program; it only widens the interval.
    """
    value = math.fsum(change.delta_ps for change in changes if change.kind is not ChangeKind.MACHINE)
    total, low, high = sum_changes(changes)
    return clamp_share(value / step, (low - max(total - value, 0.0)) / step, (high + max(value - total, 0.0)) / step)


def compute_min_change(before: Side, after: Side) -> float:
    """Return the share of a step by which a part must change to be reported."""
    return MIN_CHANGE if min(len(before.captures), len(after.captures)) >= MIN_CAPTURES else MIN_CHANGE_FEW_CAPTURES


def compute_changes(
    rows: Sequence[PartRow], factors: Mapping[str, Factor], before: Side, after: Side, step: float
) -> list[Change]:
    """Return the change of each part. `step` is the time of the faster side's step, ps."""
    changes = []
    lines = _new_lines(before, after)
    for row in rows:
        one, two, factor = before.part_mean(row.part), after.part_mean(row.part_after), factors[row.work_class]
        if row.error:
            changes.append(_with_lines(_row_change(row, one, two, factor), lines))
        else:  # a part too small to contribute to its class's factor
            changes.append(compute_change(row.part, row.part_after[2], row.work_class, one, two, factor))
    return _mark_moved(mark_significant(changes, step, compute_min_change(before, after)))


def _row_change(row: PartRow, one: Mean, two: Mean, factor: Factor) -> Change:
    """Return the change of a part whose error was fitted with its class."""
    expected = one.value * math.exp(factor.log_factor)
    steps = math.hypot(one.sampling_error / one.value, two.sampling_error / two.value) if row.sampled else 0.0
    error = math.hypot(row.error, steps)
    half = student(LEVEL, int(row.freedom)) * error
    delta, low, high = (expected * math.expm1(row.log_ratio + sign * half) for sign in (0, -1, 1))
    p_value = two_sided_p_value(row.log_ratio / error, row.freedom)
    return Change(
        row.part, row.part_after[2], row.work_class, one, two, expected, ChangeKind.CHANGED, delta, low, high, p_value
    )


def compute_change(part: PartKey, name_after: str, work: str, before: Mean, after: Mean, factor: Factor) -> Change:
    """Return the change of a part that did not contribute to its class's factor, for example one
    that exists on one side only.
    """
    expected = before.value * math.exp(factor.log_factor)
    kind = ChangeKind.NEW if before.value == 0 else ChangeKind.GONE if after.value == 0 else ChangeKind.CHANGED
    delta, freedom = after.value - expected, min(before.freedom, after.freedom)
    measured = math.hypot(before.error, after.error)
    error = math.hypot(measured, factor.spread * expected)
    half = student(LEVEL, freedom) * error
    # no machine makes a part appear or disappear entirely, so that the spread of classes does not
    # apply
    test_error = error if kind is ChangeKind.CHANGED else measured
    p_value = two_sided_p_value(delta / test_error, freedom) if test_error else 1.0
    return Change(part, name_after, work, before, after, expected, kind, delta, delta - half, delta + half, p_value)


def mark_significant(changes: Sequence[Change], step: float, min_change: float = MIN_CHANGE) -> list[Change]:
    """Return the changes, of which those that may be due to chance or the machine, or are too small
    to matter, are classified as the machine's.
    """
    large = [change for change in changes if max(change.before.value, change.after.value) >= MIN_PART_SHARE * step]
    significant = benjamini_hochberg([change.p_value for change in large], FALSE_DISCOVERY_RATE)
    own_ids = {
        id(change)
        for change, is_sure in zip(large, significant, strict=True)
        if is_sure and abs(change.delta_ps) >= min_change * step
    }
    return [change if id(change) in own_ids else replace(change, kind=ChangeKind.MACHINE) for change in changes]


def _new_lines(before: Side, after: Side) -> Mean | None:
    """Return the time of the lines of Python that exist on one side only, ps per step: positive
    where they are new. None where a side has no samples.
    """
    one, two = (group_by_line(capture.lines for capture in side.captures) for side in (before, after))
    if not one or not two:
        return None
    added = [line_mean(two[key], after.capture_log_sd) for key in two.keys() - one.keys()]
    removed = [line_mean(one[key], before.capture_log_sd) for key in one.keys() - two.keys()]
    value = math.fsum(line.value for line in added) - math.fsum(line.value for line in removed)
    errors = [line.error for line in (*added, *removed)]
    return Mean(value, math.hypot(*errors), math.hypot(*errors), min((line.freedom for line in (*added, *removed)), default=1))


def _with_lines(change: Change, lines: Mean | None) -> Change:
    """Return the change of the time in which no op runs, attributed to new lines of Python where
    they explain most of it. No machine adds a line of source, so the samples of these lines
    measure the change, and the spread of work classes does not apply.
    """
    if lines is None or change.part[0] != STEP_SIDE or not lines.error or lines.value * change.delta_ps <= 0:
        return change
    if not _EXPLAINS <= lines.value / change.delta_ps <= 1 / _EXPLAINS:
        return change
    error = math.hypot(lines.error, change.delta_ps - lines.value)
    half = student(LEVEL, lines.freedom) * error
    if 2 * half >= change.high_ps - change.low_ps:
        return change
    p_value = min(change.p_value, two_sided_p_value(change.delta_ps / error, lines.freedom))
    return replace(change, low_ps=change.delta_ps - half, high_ps=change.delta_ps + half, p_value=p_value)


def _mark_moved(changes: list[Change]) -> list[Change]:
    """Return the changes with those of the program reclassified as moved where one that disappears
    has a counterpart in the same class that appears with about the same time.
    """
    candidates = sorted(
        (change for change in changes if change.kind is not ChangeKind.MACHINE), key=lambda change: -abs(change.delta_ps)
    )
    moved: set[PartKey] = set()
    for one, two in combinations(candidates, 2):
        remainder, larger = abs(one.delta_ps + two.delta_ps), max(abs(one.delta_ps), abs(two.delta_ps))
        opposite = one.work_class == two.work_class and one.delta_ps * two.delta_ps < 0 and remainder <= _CANCELS * larger
        if opposite and not moved & {one.part, two.part}:
            moved |= {one.part, two.part}
    return [replace(change, kind=ChangeKind.MOVED) if change.part in moved else change for change in changes]

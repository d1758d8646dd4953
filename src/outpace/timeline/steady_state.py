# SPDX-License-Identifier: Apache-2.0
"""Selection of the steady state: a leading warm-up, single and irregular slow steps are excluded;
slow steps that recur regularly stay.

A training repeats one step thousands of times; a capture has a few of them, and sometimes the first
one, which compiles, or some that were delayed by something else. A mean with such steps says
nothing about the training. What recurs regularly (a checkpoint every ten steps) is part of the
training's cost: it stays, and the mean spreads it over its period.

The first build of a function is known from its events: a step that it makes longer is excluded,
whatever other steps take as long. All other limits are robust statistics of the steps' durations
alone; the tools explain from a step's categories why it took longer.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from outpace.model import Unit, median
from outpace.model.arrays import Indices, Mask, Picoseconds, Values
from outpace.timeline.limit_checks import LimitCheck

_FEWEST = 3  # number of steps up to which outliers cannot be recognised (but see _OF_THREE)
_SPREADS = 5.0  # outlier limit: robust standard deviations above the median, one in millions of a normal distribution
_LONGER = 1.5  # outlier limit: minimum multiple of the median; a shorter step moves the mean of 20 steps by under 3%
_SAME_EXCESS = 0.25  # minimum excess over the median, relative to the outliers' median excess, to be the same recurring event
_SHORTER = 0.5  # multiple of the median below which a leading step found its input in buffers filled before the capture
UNEVEN_RATIO = 1.15  # ratio of mean to median from which a few steps dominate the mean
_FEW, _ANYWAY = 0.1, 3  # maximum share of slow steps, or their maximum number; more slow steps are normal for the program
_EQUAL = 1.25  # maximum ratio of the excess of recurring slow steps, where only two are seen
_ABOUT = 2.0  # maximum ratio of the excess of the first step and a later one of the same kind
_UNLIKE = 10.0  # minimum ratio of an outlier's excess to that of any other outlier from which it is a single event
_OF_THREE = 3.0  # minimum ratio to the next longest from which one of three steps is an outlier
# Trend: maximum and minimum number of parts of a capture, and minimum number of steps per part; in
# fewer steps no trend can be recognised
_PARTS, _LEAST_PARTS, _OF_A_PART = 12, 8, 4
# Trend: minimum of Kendall's tau. By chance, twelve parts reach it in two of a thousand captures,
# and eight parts in three of a hundred
_TAU = 0.6
_GROWS = 1.2  # trend: minimum ratio of the step time at the end of a capture to that at its begin
_BUILD = 0.05  # minimum share of a step that a build takes, and by which the step is longer; less moves no mean
_STILL = 1 / 6  # trend: minimum share of the growth in the last quarter; of an even growth it is a third
_LEADING = 0.25  # maximum share of the steps that can be a lead fed from buffers
_TO_SIGMA = 1.4826  # standard deviation per median absolute deviation, of a normal distribution


class Exclusion(str, Enum):
    """Why a step is excluded from the steady state."""

    NO = ""
    WARM_UP = "warm-up"
    FIRST_BUILD = "first compilation"
    BUFFERED = "fed from buffers"
    ONE_OFF = "one-off"
    SLOW = "slow"


def outlier_limit(durations: Values) -> float:
    """Return the duration above which a step is an outlier among these durations, in ps."""
    middle = median(durations)
    spread = _TO_SIGMA * median(np.abs(durations - middle))
    return max(middle + _SPREADS * spread, _LONGER * middle)


def find_exclusions(
    durations: Picoseconds | Values, complete: Mask, checks: list[LimitCheck], build_time_ps: Picoseconds | Values | None = None
) -> list[Exclusion]:
    """Return the exclusion of each step.

    durations: ps.
    complete: whether the capture has the whole step; incomplete steps are not judged and stay `NO`.
    checks: receives the decisions.
    build_time_ps: time of first builds in each step, ps. A step that this made longer is excluded,
        and the others are judged without it.

    Leading steps are a warm-up while each is an outlier among the steps after it. After them, one
    single outlier is a one-off, unless it is of the same kind as the first step. Two or more
    outliers stay if they recur regularly or hardly change the mean; else they are slow steps.
    """
    builds = _builds(durations, complete, build_time_ps)
    rows = np.flatnonzero(complete & ~builds)
    exclusions = [Exclusion.NO] * len(durations)
    for row, reason in zip(rows.tolist(), _outliers(durations[rows].astype(np.float64), checks), strict=True):
        exclusions[row] = reason
    leads = True
    for row in np.flatnonzero(complete).tolist():
        if builds[row]:
            exclusions[row] = Exclusion.WARM_UP if leads else Exclusion.FIRST_BUILD
        leads &= exclusions[row] is Exclusion.WARM_UP
    return exclusions


def _builds(durations: Picoseconds | Values, complete: Mask, built: Picoseconds | Values | None) -> Mask:
    """Return a boolean per step: whether a first build made it longer than steps without one."""
    if built is None:
        return np.zeros(len(durations), bool)
    holds = np.asarray(built > _BUILD * durations)
    without_build = durations[complete & ~holds]
    return holds & (durations > (1 + _BUILD) * median(without_build)) if len(without_build) else holds


def _outliers(times: Values, decisions: list[LimitCheck]) -> list[Exclusion]:
    """Return the exclusion of each of the given complete steps (durations in ps)."""
    first, reason = _leading(times[:-_FEWEST], times, Exclusion.WARM_UP, decisions), Exclusion.WARM_UP
    if first == 0:
        leading = times[: int(_LEADING * len(times))]
        first, reason = _leading(leading, times, Exclusion.BUFFERED, decisions), Exclusion.BUFFERED
    exclusions = [reason] * first + [Exclusion.NO] * (len(times) - first)
    rest = times[first:]
    slow, reason = np.zeros(0, np.int64), Exclusion.SLOW
    if len(rest) > _FEWEST:
        slow = _single(rest, _find_slow(rest, decisions))
        if len(slow) == 1 and first == 1 and _like_the_first(times, 1 + int(slow[0])):
            return [Exclusion.NO] * len(times)
        if len(slow) == 1:
            reason = Exclusion.ONE_OFF
        elif (
            not len(slow)
            or len(slow) > max(_ANYWAY, _FEW * len(rest))
            or _comes_round(rest, slow)
            or not _is_uneven(rest, decisions)
        ):
            slow = slow[:0]
    elif len(rest) == _FEWEST and first == 0:
        slow = np.flatnonzero(rest >= _OF_THREE * np.sort(rest)[-2])
    for step in (first + slow).tolist():
        exclusions[step] = reason
    return exclusions


def _single(times: Values, slow: Indices) -> Indices:
    """Return the one outlier that is far beyond all other outliers, a single event; all outliers
    where there is no such one.
    """
    beyond = np.sort(times[slow] - median(times))
    alone = len(slow) > 1 and beyond[-1] >= _UNLIKE * beyond[-2]
    return slow[[int(np.argmax(times[slow]))]] if alone else slow


def mean_to_median(times: Picoseconds | Values) -> float:
    """Return the ratio of the mean to the median; 1 where the median is 0."""
    middle = median(times.astype(np.float64))
    return float(np.mean(times)) / middle if middle > 0 else 1.0


def _is_uneven(times: Values, decisions: list[LimitCheck]) -> bool:
    """Whether irregular outliers dominate the mean."""
    ratio = mean_to_median(times)
    means = ("kept, slow ones too", f"that of steps without the slow ones, left out ({Exclusion.SLOW.value})")
    decisions.append(
        LimitCheck("the mean step, {} times the median,", ratio, UNEVEN_RATIO, ratio >= UNEVEN_RATIO, means, unit=Unit.RATIO)
    )
    return ratio >= UNEVEN_RATIO


def _like_the_first(times: Values, step: int) -> bool:
    """Whether the first step and `step` (an index) are of the same kind, which then recurs: both
    take many times as long as the others, and about as long as each other, allowing for start-up in
    the first step.
    """
    beyond = times[[0, step]] - median(times)
    return bool(beyond.min() >= _UNLIKE * median(times) and beyond.max() <= _ABOUT * beyond.min())


def _comes_round(times: Values, slow: Indices) -> bool:
    """Whether outliers are one event that recurs at equal distances, and, where there are only two,
    takes equally long each time.
    """
    _, every = find_period(times, np.ones(len(times), bool))
    beyond = times[slow] - median(times)
    return every is not None and (len(slow) > 2 or bool(beyond.max() <= _EQUAL * beyond.min()))


def find_trend(durations: Picoseconds | Values) -> tuple[float, float] | None:
    """Return the step times at the begin and at the end of a capture in which steps grow longer
    (medians of the first and the last quarter, ps); None where they do not.

    Of any two parts of the capture the later one nearly always takes longer (Kendall's tau), the
    total growth is at least twice the spread of steps within parts, and steps still grow at the
    end: where a buffer runs empty, they do not.
    """
    count = min(_PARTS, len(durations) // _OF_A_PART)
    if count < _LEAST_PARTS:
        return None
    times = np.asarray(durations, np.float64)
    parts = times[len(times) % count :].reshape(count, -1)
    middles = np.sort(parts, axis=1)[:, parts.shape[1] // 2]
    tau = float(np.sign(middles[None, :] - middles[:, None])[np.triu_indices(count, 1)].mean())
    spread = _TO_SIGMA * median(np.abs(parts - middles[:, None]).ravel())
    quarter = len(times) // 4
    first, last = median(times[:quarter]), median(times[-quarter:])
    if tau < _TAU or last < _GROWS * first or last - first < 2 * spread:
        return None
    third = median(times[-2 * quarter : -quarter])
    return (first, last) if last - third >= _STILL * (last - first) else None


def _find_slow(times: Values, decisions: list[LimitCheck]) -> Indices:
    """Return the indices of the outliers. The two slowest steps decide whether there is one outlier
    or two; the first step was judged as a leading step.
    """
    bound, middle = outlier_limit(times), median(times)
    outliers = np.flatnonzero(times > bound)
    slowest, second = np.argsort(times, kind="stable")[:-3:-1].tolist()
    if len(outliers) <= 1 and slowest:
        what, means = "the slowest step, {} times the median,", ("kept", f"left out ({Exclusion.ONE_OFF.value})")
        decisions.append(LimitCheck(what, times[slowest], bound, len(outliers) > 0, means, middle, Unit.RATIO))
    if len(outliers) in (1, 2) and second:
        what = "the second slowest step, {} times the median,"
        means = ("no outlier, and the slowest left out", "an outlier too")
        decisions.append(LimitCheck(what, times[second], bound, len(outliers) > 1, means, middle, Unit.RATIO))
    return outliers


def find_period(durations: Picoseconds | Values, steady: Mask) -> tuple[Indices, float | None]:
    """Return (indices of steady steps that take much longer and recur, their mean distance in
    steps; None where the distance is irregular).
    """
    rows = np.flatnonzero(steady)
    if len(rows) <= _FEWEST:
        return rows[:0], None
    times = durations[rows].astype(np.float64)
    beyond = times - median(times)
    outliers = times > outlier_limit(times)
    if not outliers.any():
        return rows[:0], None
    slow = rows[outliers & (beyond >= _SAME_EXCESS * median(beyond[outliers]))]
    gaps = np.diff(slow)
    apart = len(gaps) > 0 and int(gaps.min()) > 1  # neighbouring slow steps are one disturbance, without a period
    regular = apart and int(gaps.max() - gaps.min()) <= max(1, round(0.1 * float(gaps.mean())))
    return slow, float(gaps.mean()) if regular else None


def _leading(some: Values, times: Values, reason: Exclusion, decisions: list[LimitCheck]) -> int:
    """Return the number of leading steps that differ from the steps after them.

    A step that differs from a set of steps still differs when other differing steps are removed
    from that set: consecutive differing steps are excluded at once.
    """
    count = 0
    while count < len(some):
        rest = times[count + 1 :]
        slow, middle = reason is Exclusion.WARM_UP, median(rest)
        bound = outlier_limit(rest) if slow else _SHORTER * middle
        differ = some[count:] > bound if slow else some[count:] < bound
        run = len(differ) if differ.all() else int(np.argmin(differ))
        nearest = min(some[count : count + max(run, 1)].tolist(), key=lambda time: abs(time - bound))
        means = ("kept", f"left out ({reason.value})")
        over, means = (run > 0, means) if slow else (run == 0, means[::-1])
        decisions.append(LimitCheck("a leading step of {} times the median", nearest, bound, over, means, middle, Unit.RATIO))
        if run == 0:
            break
        count += run
    return count

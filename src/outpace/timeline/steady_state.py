"""Which steps are the steady state: a leading warm-up, single events and irregular ones are set
aside, what comes round stays.

A training repeats one step thousands of times; a capture holds a few of them, and sometimes the
first one, which compiles, or some that something else held up. A mean that such steps make says
nothing about the training. What comes round (a checkpoint every ten steps) is part of the
training's cost: it stays, and the mean spreads it over its period.

The first build of a function is known from its events: a step that it makes longer is set aside,
whatever else takes as long. All other limits are robust statistics of the steps' durations alone;
why a step took longer is told from its categories, by the tools.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from outpace.model import Unit, median
from outpace.model.arrays import Indices, Mask, Picoseconds, Values
from outpace.timeline.limit_checks import LimitCheck

_FEWEST = 3  # steps: of fewer, none can be told from the others
_SPREADS = 5.0  # robust standard deviations above the median: one in millions of a normal distribution
_LONGER = 1.5  # and at least this many times the median: what takes less moves the mean of 20 steps by under 3%
_ALIKE = 0.25  # of what most of the slow steps take more: less is chance, and not the same event
_SHORTER = 0.5  # times the median: a leading step that found its input in buffers filled before the capture
UNEVEN_RATIO = 1.15  # times the median, for a mean to be made by few steps
_FEW, _ANYWAY = 0.1, 3  # of the steps, or so many, are few: more slow ones are the program's way
_EQUAL = 1.25  # times as much beyond the usual: what comes round takes as long each time, also where only two are seen
_ABOUT = 2.0  # times as much beyond the usual
_UNLIKE = 10.0  # times as much beyond the usual as any other outlier: a single event
_OF_THREE = 3.0  # times the next longest, for one of three steps to be none like the others
_PARTS, _LEAST_PARTS, _OF_A_PART = 12, 8, 4  # of a capture, and steps in each: of fewer, none says how long they take
_TAU = 0.6  # by chance, twelve parts are so ordered in two of a thousand captures, and eight in three of a hundred
_GROWS = 1.2  # times as long at the end of a capture as at its begin
_BUILD = 0.05  # of a step, and as much longer than others it is: less of it moves no mean
_LEADING = 0.25  # of the steps at most are a warm-up that was too fast
_TO_SIGMA = 1.4826  # of a normal distribution: standard deviation per median absolute deviation


class Exclusion(str, Enum):
    """Why a step is no part of the steady state."""

    NO = ""
    WARM_UP = "warm-up"
    FIRST_BUILD = "first compilation"
    BUFFERED = "fed from buffers"
    ONE_OFF = "one-off"
    SLOW = "slow"


def outlier_limit(durations: Values) -> float:
    """Duration from which a step is an outlier among steps of these durations, ps."""
    middle = median(durations)
    spread = _TO_SIGMA * median(np.abs(durations - middle))
    return max(middle + _SPREADS * spread, _LONGER * middle)


def find_exclusions(
    durations: Picoseconds | Values, complete: Mask, checks: list[LimitCheck], build_time_ps: Picoseconds | Values | None = None
) -> list[Exclusion]:
    """What each step is, from durations in ps; steps that the capture cut off are judged by nobody
    and stay `NO`. What is decided is added to `checks`.

    `build_time_ps`: of each step, how long it built functions for the first time, ps. A step that
    this made longer is set aside, and the others are judged as if it were not there. Leading steps
    are a warm-up while each is an outlier among the steps that follow it. After them one single
    outlier is a one-off, unless it is what the first step was; two or more stay if they come round,
    or hardly change the mean; else they are slow steps.
    """
    builds = _builds(durations, complete, build_time_ps)
    rows = np.flatnonzero(complete & ~builds)
    found = [Exclusion.NO] * len(durations)
    for row, reason in zip(rows.tolist(), _outliers(durations[rows].astype(np.float64), checks), strict=True):
        found[row] = reason
    leads = True
    for row in np.flatnonzero(complete).tolist():
        if builds[row]:
            found[row] = Exclusion.WARM_UP if leads else Exclusion.FIRST_BUILD
        leads &= found[row] is Exclusion.WARM_UP
    return found


def _builds(durations: Picoseconds | Values, complete: Mask, built: Picoseconds | Values | None) -> Mask:
    """Which steps the first build of a function made longer than those without any are."""
    if built is None:
        return np.zeros(len(durations), bool)
    holds = np.asarray(built > _BUILD * durations)
    others = durations[complete & ~holds]
    return holds & (durations > (1 + _BUILD) * median(others)) if len(others) else holds


def _outliers(times: Values, decisions: list[LimitCheck]) -> list[Exclusion]:
    """Of whole steps, ps, why each is none of the steady state."""
    first, reason = _leading(times[:-_FEWEST], times, Exclusion.WARM_UP, decisions), Exclusion.WARM_UP
    if first == 0:
        some = times[: int(_LEADING * len(times))]
        first, reason = _leading(some, times, Exclusion.BUFFERED, decisions), Exclusion.BUFFERED
    found = [reason] * first + [Exclusion.NO] * (len(times) - first)
    rest = times[first:]
    slow, reason = np.zeros(0, np.int64), Exclusion.SLOW
    if len(rest) > _FEWEST:
        slow = _single(rest, _slow(rest, decisions))
        if len(slow) == 1 and first == 1 and _like_the_first(times, 1 + int(slow[0])):
            return [Exclusion.NO] * len(times)
        if len(slow) == 1:
            reason = Exclusion.ONE_OFF
        elif (
            not len(slow)
            or len(slow) > max(_ANYWAY, _FEW * len(rest))
            or _comes_round(rest, slow)
            or not _uneven(rest, decisions)
        ):
            slow = slow[:0]
    elif len(rest) == _FEWEST and first == 0:
        slow = np.flatnonzero(rest >= _OF_THREE * np.sort(rest)[-2])
    for at in (first + slow).tolist():
        found[at] = reason
    return found


def _single(times: Values, slow: Indices) -> Indices:
    """Of outliers, the one that is nothing like the others: a single event, beside which these are
    small; all of them, where none is.
    """
    beyond = np.sort(times[slow] - median(times))
    alone = len(slow) > 1 and beyond[-1] >= _UNLIKE * beyond[-2]
    return slow[[int(np.argmax(times[slow]))]] if alone else slow


def mean_to_median(times: Picoseconds | Values) -> float:
    """How many times the median the mean is; 1 where there is no median."""
    middle = median(times.astype(np.float64))
    return float(np.mean(times)) / middle if middle > 0 else 1.0


def _uneven(times: Values, decisions: list[LimitCheck]) -> bool:
    """Whether outliers that do not come round make the mean."""
    ratio = mean_to_median(times)
    means = ("kept, slow ones too", f"that of steps without the slow ones, set aside ({Exclusion.SLOW.value})")
    decisions.append(
        LimitCheck("the mean step, {} times the median,", ratio, UNEVEN_RATIO, ratio >= UNEVEN_RATIO, means, unit=Unit.RATIO)
    )
    return ratio >= UNEVEN_RATIO


def _like_the_first(times: Values, at: int) -> bool:
    """Whether the first step was what the one at `at` is, which then comes again: both take many
    times as long as the others, and about as long as each other, as far as a first step that also
    starts things up can.
    """
    beyond = times[[0, at]] - median(times)
    return bool(beyond.min() >= _UNLIKE * median(times) and beyond.max() <= _ABOUT * beyond.min())


def _comes_round(times: Values, slow: Indices) -> bool:
    """Whether outliers are one event that comes again and again: at equal distances, and of only
    two, as long each time.
    """
    _, every = find_period(times, np.ones(len(times), bool))
    beyond = times[slow] - median(times)
    return every is not None and (len(slow) > 2 or bool(beyond.max() <= _EQUAL * beyond.min()))


def find_trend(durations: Picoseconds | Values) -> tuple[float, float] | None:
    """How long steps take at the begin and at the end of a capture in which they grow longer and
    longer (medians of the first and of the last quarter, ps); None where they do not.

    Of two parts of the capture the later one takes longer nearly always (Kendall's tau), and the
    whole way is more than steps vary beside it.
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
    return (first, last) if tau >= _TAU and last >= _GROWS * first and last - first >= 2 * spread else None


def _slow(times: Values, decisions: list[LimitCheck]) -> Indices:
    """Indices of the outliers. Whether there is one or two of them is decided by the two slowest
    steps; the first step was judged as a lead.
    """
    bound, middle = outlier_limit(times), median(times)
    found = np.flatnonzero(times > bound)
    slowest, second = np.argsort(times, kind="stable")[:-3:-1].tolist()
    if len(found) <= 1 and slowest:
        what, means = "the slowest step, {} times the median,", ("kept", f"set aside ({Exclusion.ONE_OFF.value})")
        decisions.append(LimitCheck(what, times[slowest], bound, len(found) > 0, means, middle, Unit.RATIO))
    if len(found) in (1, 2) and second:
        what = "the second slowest step, {} times the median,"
        means = ("no outlier, and the slowest set aside", "an outlier too")
        decisions.append(LimitCheck(what, times[second], bound, len(found) > 1, means, middle, Unit.RATIO))
    return found


def find_period(durations: Picoseconds | Values, steady: Mask) -> tuple[Indices, float | None]:
    """Steps of the steady state that take much longer and come again: (their indices, every how
    many steps; None where irregular).
    """
    rows = np.flatnonzero(steady)
    if len(rows) <= _FEWEST:
        return rows[:0], None
    times = durations[rows].astype(np.float64)
    beyond = times - median(times)
    outliers = times > outlier_limit(times)
    if not outliers.any():
        return rows[:0], None
    slow = rows[outliers & (beyond >= _ALIKE * median(beyond[outliers]))]
    gaps = np.diff(slow)
    apart = len(gaps) > 0 and int(gaps.min()) > 1  # neighbours are one disturbance, and come round with nothing
    regular = apart and int(gaps.max() - gaps.min()) <= max(1, round(0.1 * float(gaps.mean())))
    return slow, float(gaps.mean()) if regular else None


def _leading(some: Values, times: Values, reason: Exclusion, decisions: list[LimitCheck]) -> int:
    """How many of the first steps stand apart from those that follow.

    What stands apart from steps among which there are more like it does so without these too: all
    that follow in a row are set aside at once.
    """
    count = 0
    while count < len(some):
        rest = times[count + 1 :]
        slow, middle = reason is Exclusion.WARM_UP, median(rest)
        bound = outlier_limit(rest) if slow else _SHORTER * middle
        differ = some[count:] > bound if slow else some[count:] < bound
        run = len(differ) if differ.all() else int(np.argmin(differ))
        nearest = min(some[count : count + max(run, 1)].tolist(), key=lambda time: abs(time - bound))
        means = ("kept", f"set aside ({reason.value})")
        over, means = (run > 0, means) if slow else (run == 0, means[::-1])
        decisions.append(LimitCheck("a leading step of {} times the median", nearest, bound, over, means, middle, Unit.RATIO))
        if run == 0:
            break
        count += run
    return count

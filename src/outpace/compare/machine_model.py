"""What the machine explains of how parts differ.

A machine that is slower, or busy with something else, changes a *class of work* by one factor. So
each capture has a factor for each class, the middle of its parts' log ratios to their mean over all
captures. What is left of a part is told by an error: how far captures of one side differ in the
part, mixed with what they do in others of its class; where there are too few captures to say, how
far the parts of the class lie from its factor, mixed with a stated prior. A class of few parts says
little of itself: its error holds how far classes lie apart.

No part can make itself the machine. A class of many parts has the middle of these, however long
each takes. Fewer have two middles, one that counts parts and one that counts their time on the side
where each is shorter, and the factor is the value between the two that is nearest to that of all
parts, and not far from it; that of all parts is nearest to what evidence from outside says
(`evidence.py`; nothing, where there is none). A part that grows moves neither middle past the
others, and one that holds most of the time does not outvote them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from outpace._dataclass import dataclass
from outpace.compare.facts import MIN_SHARED_TIME
from outpace.compare.means import PRIOR_WEIGHT
from outpace.compare.side import ON_DEVICE, PartKey
from outpace.model.arrays import Values

MIN_PART_SHARE = 0.002  # of a step, below which a part says nothing of its class
PART_LOG_SD = {False: 0.06, True: 0.02}  # prior sd of log ratios within a class: on a host's cores, on devices
CLASS_LOG_SD = 0.1  # prior sd of the log of the ratio of two classes' factors
MIN_PARTS = 6  # parts that do not tell how far parts of their class lie apart
MIN_PARTS_OWN_FACTOR = 3  # parts that have a factor of their own: of two, either may be the one that changed
_REACH = 2.0  # times the sd of how far classes lie apart, that one of few parts lies from all parts at most
_ALONE = 2.0  # how much wider the prior of a class of few parts is
TAIL_FREEDOM = 8  # degrees of freedom of how far parts lie from their class: some lie far, as no normal number does
_MODERATE = 2  # degrees of freedom, from which captures say how far captures differ
_HAIR = 1e-9  # of all weight: more than what sums of shares are off by
_MAD = 1.4826  # times the median absolute deviation is the standard deviation of normal numbers


@dataclass(frozen=True)
class Factor:
    """By how much a class of work takes longer (log), how far its parts lie from that (sd of the
    log), and how many parts say so.
    """

    log_factor: float
    spread: float
    part_count: int


@dataclass(frozen=True)
class PartRow:
    """One part on both sides. means: of each capture, ps, those of the first side first; log: what
    the second side takes longer, without its class; error: of that, with its degrees of freedom,
    none for a part that says nothing. sampled: whether it leaves out that of steps.
    """

    part: PartKey
    part_after: PartKey
    work_class: str
    means: tuple[float, ...]
    log_ratio: float = 0.0
    error: float = 0.0
    freedom: float = 0.0
    sampled: bool = False


@dataclass(frozen=True)
class MachineModel:
    """The rows with what is left of their difference without their class, the factors of classes,
    and the share of the faster side's time that parts of both sides hold.
    """

    rows: list[PartRow]
    factors: dict[str, Factor]
    shared_fraction: float

    @property
    def too_few_shared(self) -> bool:
        """Whether the sides share too little for their parts to say anything of the machine."""
        return self.shared_fraction < MIN_SHARED_TIME


def fit_machine_model(
    rows: Sequence[PartRow],
    captures_before: int,
    step_times: tuple[float, float],
    log_shift: float = 0.0,
    class_log_sd: float = 0.0,
    max_class_log: float | None = None,
) -> MachineModel:
    """What the machine explains. count: captures of the first side; steps: both sides' times, ps;
    outside: the log factor that evidence from outside the parts gives; uneven: sd of the log by
    which that evidence lets classes lie apart; reach: the log that one of few parts lies from all
    parts at most by that evidence, None where it does not say.
    """
    told = [
        row for row in rows if min(row.means) > 0 and _shorter(row, captures_before) >= MIN_PART_SHARE * min(step_times)
    ]  # whatever a part grows to
    shared = _share(told, rows, slice(captures_before) if step_times[0] <= step_times[1] else slice(captures_before, None))
    blind = shared < MIN_SHARED_TIME
    logs = {id(row): np.log(row.means) - np.log(row.means).mean() for row in told}
    works = {work: [row for row in told if row.work_class == work] for work in sorted({row.work_class for row in rows})}
    shift = np.repeat(
        (-log_shift / 2, log_shift / 2), (captures_before, (len(rows[0].means) if rows else captures_before) - captures_before)
    )
    usual = shift if blind or not told else _factor(told, logs, captures_before, log_shift)
    most = math.hypot(_REACH * CLASS_LOG_SD if max_class_log is None else max_class_log, _REACH * class_log_sd)
    middles = {work: usual if blind else _of_class(mine, logs, captures_before, usual, most) for work, mine in works.items()}
    speaking = [
        _between(middles[work], captures_before) for work, mine in works.items() if len(mine) >= MIN_PARTS and not blind
    ]
    apart = math.hypot(CLASS_LOG_SD, class_log_sd, max(speaking) - min(speaking) if speaking else 0.0)
    found: dict[int, PartRow] = {}
    factors = {}
    for work, mine in works.items():
        few = blind or len(mine) < MIN_PARTS
        prior = math.hypot(_ALONE * PART_LOG_SD[work == ON_DEVICE], apart) if few else PART_LOG_SD[work == ON_DEVICE]
        left = {id(row): logs[id(row)] - middles[work] for row in mine}
        away = {key: _between(those, captures_before) for key, those in left.items()}
        spread = prior if few else _spread(list(away.values()), prior)
        errors = _errors(left, captures_before, prior if few else None)
        for row in mine:
            error, freedom = errors.get(id(row), (spread, min(PRIOR_WEIGHT + len(told), TAIL_FREEDOM)))
            found[id(row)] = replace(row, log_ratio=away[id(row)], error=error, freedom=freedom, sampled=not errors)
        factors[work] = Factor(_between(middles[work], captures_before), spread, len(mine))
    return MachineModel([found.get(id(row), row) for row in rows], factors, shared)


def _between(logs: Values, count: int) -> float:
    """What the second side's captures have more than the first's."""
    return float(logs[count:].mean() - logs[:count].mean())


def _shorter(row: PartRow, count: int) -> float:
    """The time of a part on the side where it is shorter, ps."""
    return min(float(np.mean(row.means[:count])), float(np.mean(row.means[count:])))


def _share(some: Sequence[PartRow], rows: Sequence[PartRow], side: slice) -> float:
    """How much of the time of all parts some of them take on one side."""
    whole = sum(sum(row.means[side]) for row in rows)
    return sum(sum(row.means[side]) for row in some) / whole if whole else 0.0


def _of_class(mine: Sequence[PartRow], logs: dict[int, Values], count: int, usual: Values, most: float) -> Values:
    """The log factor of a class in each capture: its own where it has many parts; of few it lies
    near that of all parts, since two of three may be what the program changed.
    """
    if len(mine) < MIN_PARTS_OWN_FACTOR:
        return usual
    own = _factor(mine, logs, count, _between(usual, count), own=True)
    away = _between(own, count) - _between(usual, count)
    if len(mine) >= MIN_PARTS or abs(away) <= most:
        return own
    return np.asarray(usual + (own - usual) * most / abs(away), np.float64)


def _factor(told: Sequence[PartRow], logs: dict[int, Values], count: int, near: float, own: bool = False) -> Values:
    """The log factor of some parts in each capture: between their two middles, where the sides
    differ by most nearly as much as `near`. Of many parts of one class (`own`) it is the plain one:
    most of them are not changed, whatever time they take.
    """
    each = np.array([logs[id(row)] for row in told])
    shorter = np.array([_shorter(row, count) for row in told])
    plain = _middle(each, np.ones(len(told)), count, near)
    if own and len(told) >= MIN_PARTS:
        return plain
    timed = _middle(each, shorter, count, near)
    one, two = _between(plain, count), _between(timed, count)
    if one == two:
        return plain
    aim = min(max(near, min(one, two)), max(one, two))
    return np.asarray(plain + (timed - plain) * (aim - one) / (two - one), np.float64)


def _middle(each: Values, weights: Values, count: int, near: float) -> Values:
    """The weighted median in each capture. Where two values are in the middle, each side has the
    one with which the sides differ by most nearly as much as `near`.
    """
    order = np.argsort(each, axis=0)
    reached = np.cumsum(weights[order], axis=0) / weights.sum()
    ends = []
    for half in (0.5 - _HAIR, 0.5 + _HAIR):
        at = np.minimum((reached < half).sum(axis=0), len(each) - 1)
        ends.append(np.take_along_axis(each, order, axis=0)[at, np.arange(each.shape[1])])
    both = [np.concatenate((one[:count], two[count:])) for one in ends for two in ends]
    return np.asarray(min(both, key=lambda logs: abs(_between(logs, count) - near)), np.float64)


def _spread(away: Sequence[float], prior: float) -> float:
    """How far parts of a class lie from its factor."""
    middle = median(away)
    deviation = _MAD * median(abs(each - middle) for each in away)
    return math.sqrt((PRIOR_WEIGHT * prior**2 + len(away) * deviation**2) / (PRIOR_WEIGHT + len(away)))


def _errors(left: dict[int, Values], count: int, prior: float | None) -> dict[int, tuple[float, float]]:
    """The error of each part's difference between the sides, and its degrees of freedom, by what
    captures of one side differ in; nothing where there are too few captures. prior: sd of one
    capture, where the class says nothing of it.
    """
    captures = len(next(iter(left.values()), ()))
    freedom = captures - 2
    if freedom < _MODERATE or not 0 < count < captures:
        return {}
    within = {key: _within(those, count) for key, those in left.items()}
    middle = (1 - 2 / (9 * freedom)) ** 3  # of chi squared by its degrees of freedom (Wilson and Hilferty 1931)
    usual = prior**2 if prior is not None else median(within.values()) / middle
    apart = 1 / count + 1 / (captures - count)
    return {
        key: (math.sqrt((PRIOR_WEIGHT * usual + freedom * seen) / (PRIOR_WEIGHT + freedom) * apart), PRIOR_WEIGHT + freedom)
        for key, seen in within.items()
    }


def _within(logs: Values, count: int) -> float:
    """Variance of a part among captures of one side."""
    sides = (logs[:count], logs[count:])
    return float(sum(((side - side.mean()) ** 2).sum() for side in sides)) / (len(logs) - 2)

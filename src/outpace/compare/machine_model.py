# SPDX-License-Identifier: Apache-2.0
"""Model of how much of the parts' differences the machine explains.

A machine that is slower, or busy with other work, changes a *class of work* by one factor. So each
capture has a factor for each class: the median log ratio of the class's parts to their means over
all captures. The residual of a part is tested against an error: the variance between captures of
one side in this part, pooled with that of other parts of its class; where there are too few
captures, the spread of the class's parts around its factor, pooled with a stated prior. A class of
few parts contains little information about itself, so its error includes the spread between
classes.

No single part can determine the machine's factor. The factor of a class of many parts is their
median, however long each takes. A class of fewer parts has two medians, one that counts parts and
one that weights them by their time on the side where each is shorter, and its factor is the value
between the two that is nearest to the factor of all parts, within a limited distance of it. The
factor of all parts is nearest to the evidence from outside the parts (`evidence.py`; 0 where there
is none). A part that grows moves neither median past the other parts, and a part that holds most of
the time does not outvote the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from outpace._dataclass import dataclass
from outpace.compare.facts import MIN_SHARED_TIME
from outpace.compare.side import ON_DEVICE, PartKey
from outpace.model.arrays import Values
from outpace.stats.means import PRIOR_WEIGHT

MIN_PART_SHARE = 0.002  # minimum share of a step for a part to contribute to the factor of its class
# prior sd of log ratios within a class, by whether devices run: on a host's cores, on devices
PART_LOG_SD = {False: 0.06, True: 0.02}
CLASS_LOG_SD = 0.1  # prior sd of the log of the ratio of two classes' factors
MIN_PARTS = 6  # number of parts that do not show how far the parts of their class differ
# minimum number of parts for a class to have a factor of its own: of two, either may be the one
# that changed
MIN_PARTS_OWN_FACTOR = 3
# maximum distance of the factor of a class with few parts from that of all parts, in sd of the
# spread between classes
_REACH = 2.0
_ALONE = 2.0  # factor by which the prior of a class of few parts is wider
# degrees of freedom of the distribution of parts around the factor of their class: heavier tails
# than normal
TAIL_FREEDOM = 8
_MODERATE = 2  # minimum degrees of freedom for captures to show how far captures differ
_HAIR = 1e-9  # relative tolerance of weights: larger than the rounding error of sums of shares
_MAD = 1.4826  # ratio of the standard deviation to the median absolute deviation for normal numbers


@dataclass(frozen=True)
class Factor:
    """Factor of a class of work.

    log_factor: log of the ratio by which the class takes longer on the second side
    spread: sd of the log ratios of the class's parts around the factor
    part_count: number of parts that the factor is computed from
    """

    log_factor: float
    spread: float
    part_count: int


@dataclass(frozen=True)
class PartRow:
    """One part on both sides.

    part, part_after: key of the part on the first and on the second side
    work_class: class of work of the part
    means: mean time in each capture, ps, captures of the first side first
    log_ratio: log ratio of the second side to the first, less the factor of the class
    error: standard error of `log_ratio`
    freedom: degrees of freedom of `error`; 0 for a part that does not contribute to its class
    sampled: whether `error` leaves out the error from the variation of steps
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
    """Fitted model.

    rows: the parts with their log ratios less the factors of their classes
    factors: factor of each class of work
    shared_fraction: share of the faster side's time in parts that both sides have
    """

    rows: list[PartRow]
    factors: dict[str, Factor]
    shared_fraction: float

    @property
    def too_few_shared(self) -> bool:
        """Whether the sides share too little for their parts to give information
        about the machine.
        """
        return self.shared_fraction < MIN_SHARED_TIME


def fit_machine_model(
    rows: Sequence[PartRow],
    captures_before: int,
    step_times: tuple[float, float],
    log_shift: float = 0.0,
    class_log_sd: float = 0.0,
    max_class_log: float | None = None,
) -> MachineModel:
    """Fit the factors of work classes and the residuals of parts.

    captures_before: number of captures of the first side
    step_times: step time of each side, ps
    log_shift: log factor of the machine by evidence from outside the parts
    class_log_sd: sd of the log by which that evidence allows classes of work to differ
    max_class_log: maximum distance, by that evidence, of the log factor of a class with few parts
      from that of all parts; None where it gives no limit
    """
    long_rows = [
        row for row in rows if min(row.means) > 0 and _shorter(row, captures_before) >= MIN_PART_SHARE * min(step_times)
    ]  # the shorter side decides, so that the growth of a part does not
    shared = _share(long_rows, rows, slice(captures_before) if step_times[0] <= step_times[1] else slice(captures_before, None))
    few_shared = shared < MIN_SHARED_TIME
    logs = {id(row): np.log(row.means) - np.log(row.means).mean() for row in long_rows}
    works = {work: [row for row in long_rows if row.work_class == work] for work in sorted({row.work_class for row in rows})}
    shift = np.repeat(
        (-log_shift / 2, log_shift / 2), (captures_before, (len(rows[0].means) if rows else captures_before) - captures_before)
    )
    overall = shift if few_shared or not long_rows else _factor(long_rows, logs, captures_before, log_shift)
    max_log = math.hypot(_REACH * CLASS_LOG_SD if max_class_log is None else max_class_log, _REACH * class_log_sd)
    middles = {
        work: overall if few_shared else _class_factor(class_rows, logs, captures_before, overall, max_log)
        for work, class_rows in works.items()
    }
    class_logs = [
        _side_difference(middles[work], captures_before)
        for work, class_rows in works.items()
        if len(class_rows) >= MIN_PARTS and not few_shared
    ]
    class_sd = math.hypot(CLASS_LOG_SD, class_log_sd, max(class_logs) - min(class_logs) if class_logs else 0.0)
    fitted: dict[int, PartRow] = {}
    factors = {}
    for work, class_rows in works.items():
        few_parts = few_shared or len(class_rows) < MIN_PARTS
        prior = math.hypot(_ALONE * PART_LOG_SD[work == ON_DEVICE], class_sd) if few_parts else PART_LOG_SD[work == ON_DEVICE]
        residuals = {id(row): logs[id(row)] - middles[work] for row in class_rows}
        differences = {key: _side_difference(row_logs, captures_before) for key, row_logs in residuals.items()}
        spread = prior if few_parts else _spread(list(differences.values()), prior)
        errors = _errors(residuals, captures_before, prior if few_parts else None)
        for row in class_rows:
            error, freedom = errors.get(id(row), (spread, min(PRIOR_WEIGHT + len(long_rows), TAIL_FREEDOM)))
            fitted[id(row)] = replace(row, log_ratio=differences[id(row)], error=error, freedom=freedom, sampled=not errors)
        factors[work] = Factor(_side_difference(middles[work], captures_before), spread, len(class_rows))
    return MachineModel([fitted.get(id(row), row) for row in rows], factors, shared)


def _side_difference(logs: Values, count: int) -> float:
    """Return the mean of the second side's captures less that of the first's."""
    return float(logs[count:].mean() - logs[:count].mean())


def _shorter(row: PartRow, count: int) -> float:
    """Return the time of a part on the side where it is shorter, ps."""
    return min(float(np.mean(row.means[:count])), float(np.mean(row.means[count:])))


def _share(some: Sequence[PartRow], rows: Sequence[PartRow], side: slice) -> float:
    """Return the share that some parts have in the time of all parts on one side."""
    total = sum(sum(row.means[side]) for row in rows)
    return sum(sum(row.means[side]) for row in some) / total if total else 0.0


def _class_factor(
    class_rows: Sequence[PartRow], logs: dict[int, Values], count: int, overall: Values, max_log: float
) -> Values:
    """Return the log factor of a class in each capture: from its own parts where there are many;
    limited to near that of all parts where there are few, since two of three may be parts that
    the program changed.
    """
    if len(class_rows) < MIN_PARTS_OWN_FACTOR:
        return overall
    own_factor = _factor(class_rows, logs, count, _side_difference(overall, count), unweighted=True)
    difference = _side_difference(own_factor, count) - _side_difference(overall, count)
    if len(class_rows) >= MIN_PARTS or abs(difference) <= max_log:
        return own_factor
    return np.asarray(overall + (own_factor - overall) * max_log / abs(difference), np.float64)


def _factor(rows: Sequence[PartRow], logs: dict[int, Values], count: int, near: float, unweighted: bool = False) -> Values:
    """Return the log factor of some parts in each capture: the value between their two medians at
    which the difference between the sides is nearest to `near`. With `unweighted`, for a class of
    many parts, it is the unweighted median: most of them did not change, whatever time they take.
    """
    row_logs = np.array([logs[id(row)] for row in rows])
    shorter = np.array([_shorter(row, count) for row in rows])
    plain = _middle(row_logs, np.ones(len(rows)), count, near)
    if unweighted and len(rows) >= MIN_PARTS:
        return plain
    timed = _middle(row_logs, shorter, count, near)
    one, two = _side_difference(plain, count), _side_difference(timed, count)
    if one == two:
        return plain
    nearest = min(max(near, min(one, two)), max(one, two))
    return np.asarray(plain + (timed - plain) * (nearest - one) / (two - one), np.float64)


def _middle(row_logs: Values, weights: Values, count: int, near: float) -> Values:
    """Return the weighted median in each capture. Where two values are in the middle, each side
    gets the value for which the difference between the sides is nearest to `near`.
    """
    order = np.argsort(row_logs, axis=0)
    reached = np.cumsum(weights[order], axis=0) / weights.sum()
    ends = []
    for half in (0.5 - _HAIR, 0.5 + _HAIR):
        positions = np.minimum((reached < half).sum(axis=0), len(row_logs) - 1)
        ends.append(np.take_along_axis(row_logs, order, axis=0)[positions, np.arange(row_logs.shape[1])])
    candidates = [np.concatenate((one[:count], two[count:])) for one in ends for two in ends]
    return np.asarray(min(candidates, key=lambda logs: abs(_side_difference(logs, count) - near)), np.float64)


def _spread(differences: Sequence[float], prior: float) -> float:
    """Return the sd of a class's parts around its factor."""
    middle = median(differences)
    deviation = _MAD * median(abs(distance - middle) for distance in differences)
    return math.sqrt((PRIOR_WEIGHT * prior**2 + len(differences) * deviation**2) / (PRIOR_WEIGHT + len(differences)))


def _errors(residuals: dict[int, Values], count: int, prior: float | None) -> dict[int, tuple[float, float]]:
    """Return (error, degrees of freedom) of the difference between the sides for each part, from
    the variance between captures of one side; empty where there are too few captures. `prior` is
    the sd of one capture where the class does not provide it.
    """
    captures = len(next(iter(residuals.values()), ()))
    freedom = captures - 2
    if freedom < _MODERATE or not 0 < count < captures:
        return {}
    variances = {key: _variance_within(row_logs, count) for key, row_logs in residuals.items()}
    # ratio of the median of chi squared to its degrees of freedom (Wilson and Hilferty 1931)
    middle = (1 - 2 / (9 * freedom)) ** 3
    class_variance = prior**2 if prior is not None else median(variances.values()) / middle
    per_capture = 1 / count + 1 / (captures - count)
    return {
        key: (
            math.sqrt((PRIOR_WEIGHT * class_variance + freedom * variance) / (PRIOR_WEIGHT + freedom) * per_capture),
            PRIOR_WEIGHT + freedom,
        )
        for key, variance in variances.items()
    }


def _variance_within(logs: Values, count: int) -> float:
    """Return the variance of a part among captures of one side."""
    sides = (logs[:count], logs[count:])
    return float(sum(((side - side.mean()) ** 2).sum() for side in sides)) / (len(logs) - 2)

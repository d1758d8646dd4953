"""What the machine explains of how parts differ.

A machine that is slower, or busy with something else, changes a *class of work* by one factor. So each capture has a factor for each class, the
middle of its parts' log ratios to their mean over all captures. What is left of a part is told by an error: how far captures of one side differ
in the part, mixed with what they do in others of its class; where there are too few captures to say, how far the parts of the class lie from
its factor, mixed with a stated prior. A class of few parts says nothing of itself: its factor is that of all others, and its error holds how
far classes lie apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from outpace._dataclass import dataclass
from outpace.compare.means import WEIGHT
from outpace.compare.side import ON_DEVICE, Part
from outpace.model.arrays import Values

SEEN = 0.002  # of a step, below which a part says nothing of its class
SPREAD = {False: 0.06, True: 0.02}  # prior sd of log ratios within a class: on a host's cores, on devices
CLASSES = 0.1  # prior sd of the log of the ratio of two classes' factors
FEW = 6  # parts that do not speak for their class
_ALONE = 2.0  # how much wider the prior of a class of few parts is
_SHARED = 0.5  # of a side's time, that parts must hold which both sides have; else these are other programs
_SPEAKS = 0.2  # of all parts' time, that classes must hold which speak, for anything to be known of the machine
_TAILS = 8.0  # degrees of freedom of how far parts lie from their class: some lie far, as no normal number does
_MODERATE = 2  # degrees of freedom, from which captures say how far captures differ
_MAD = 1.4826  # times the median absolute deviation is the standard deviation of normal numbers


@dataclass(frozen=True)
class Factor:
    """By how much a class of work takes longer (log), how far its parts lie from that (sd of the log), and how many parts say so."""

    log: float
    spread: float
    parts: int


@dataclass(frozen=True)
class Row:
    """One part on both sides. means: of each capture, ps, those of the first side first; log: what the second side takes longer, without
    its class; error: of that, with its degrees of freedom, none for a part that says nothing. sampled: whether it leaves out that of steps."""

    part: Part
    other: Part
    work: str
    means: tuple[float, ...]
    log: float = 0.0
    error: float = 0.0
    freedom: float = 0.0
    sampled: bool = False


def explained(rows: Sequence[Row], count: int, step: float) -> tuple[list[Row], dict[str, Factor], bool]:
    """The rows with what is left of their difference without their class, the classes, and whether these say too little of the machine. count:
    captures of the first side; step: its time, ps."""
    told = [row for row in rows if min(row.means) > 0 and max(row.means) >= SEEN * step]
    logs = {id(row): np.log(row.means) - np.log(row.means).mean() for row in told}
    works = {work: [row for row in told if row.work == work] for work in sorted({row.work for row in rows})}
    captures = len(rows[0].means) if rows else 0
    many = {work: mine for work, mine in works.items() if len(mine) >= FEW}
    speaking = [row for mine in many.values() for row in mine]
    blind = _share(speaking, rows, count) < _SPEAKS or _share(told, rows, count) < _SHARED
    known = {} if blind else many  # what few parts of other programs say is nothing
    usual = np.zeros(captures) if blind or len(told) < FEW else _usual(speaking or told, logs)
    middles = {work: np.median([logs[id(row)] for row in mine], axis=0) for work, mine in known.items()}
    between = [float(middle[count:].mean() - middle[:count].mean()) for middle in middles.values()]
    apart = math.hypot(CLASSES, max(between) - min(between)) if between else CLASSES
    found: dict[int, Row] = {}
    factors = {}
    for work, mine in works.items():
        few = work not in middles  # it may be the program's change itself: all that is known is what the others say
        factor = usual if few else middles[work]
        prior = math.hypot(_ALONE * SPREAD[work == ON_DEVICE], apart) if few else SPREAD[work == ON_DEVICE]
        left = {id(row): logs[id(row)] - factor for row in mine}
        away = {key: float(those[count:].mean() - those[:count].mean()) for key, those in left.items()}
        spread = prior if few else _spread(list(away.values()), prior)
        errors = _errors(left, count, prior if few else None)
        for row in mine:
            error, freedom = errors.get(id(row), (spread, min(WEIGHT + (0 if few else len(mine)), _TAILS)))
            found[id(row)] = replace(row, log=away[id(row)], error=error, freedom=freedom, sampled=not errors)
        factors[work] = Factor(float(factor[count:].mean() - factor[:count].mean()), spread, len(mine))
    return [found.get(id(row), row) for row in rows], factors, blind


def _share(some: Sequence[Row], rows: Sequence[Row], count: int) -> float:
    """How much of the time of all parts some of them take, on the side where it is less."""
    sides = [sum(sum(row.means[part]) for row in some) for part in (slice(count), slice(count, None))]
    wholes = [sum(sum(row.means[part]) for row in rows) for part in (slice(count), slice(count, None))]
    return min((side / whole for side, whole in zip(sides, wholes, strict=True) if whole), default=0.0)


def _usual(told: Sequence[Row], logs: dict[int, Values]) -> Values:
    """The middle of parts by their time, in each capture."""
    weights = np.array([sum(row.means) for row in told])
    each = np.array([logs[id(row)] for row in told])
    order = np.argsort(each, axis=0)
    reached = np.cumsum(weights[order], axis=0)
    middle = (reached < weights.sum() / 2).sum(axis=0)
    return np.asarray(np.take_along_axis(each, order, axis=0)[middle, np.arange(each.shape[1])], np.float64)


def _spread(away: Sequence[float], prior: float) -> float:
    """How far parts of a class lie from its factor."""
    middle = median(away)
    deviation = _MAD * median(abs(each - middle) for each in away)
    return math.sqrt((WEIGHT * prior**2 + len(away) * deviation**2) / (WEIGHT + len(away)))


def _errors(left: dict[int, Values], count: int, prior: float | None) -> dict[int, tuple[float, float]]:
    """The error of each part's difference between the sides, and its degrees of freedom, by what captures of one side differ in; nothing where
    there are too few captures. prior: sd of one capture, where the class says nothing of it."""
    captures = len(next(iter(left.values()), ()))
    freedom = captures - 2
    if freedom < _MODERATE or not 0 < count < captures:
        return {}
    within = {key: _within(those, count) for key, those in left.items()}
    middle = (1 - 2 / (9 * freedom)) ** 3  # of chi squared by its degrees of freedom (Wilson and Hilferty 1931)
    usual = prior**2 if prior is not None else float(np.median(list(within.values()))) / middle
    apart = 1 / count + 1 / (captures - count)
    return {
        key: (math.sqrt((WEIGHT * usual + freedom * seen) / (WEIGHT + freedom) * apart), WEIGHT + freedom)
        for key, seen in within.items()
    }


def _within(logs: Values, count: int) -> float:
    """Variance of a part among captures of one side."""
    sides = (logs[:count], logs[count:])
    return float(sum(((side - side.mean()) ** 2).sum() for side in sides)) / (len(logs) - 2)

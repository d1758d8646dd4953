"""Ratios of rates from paired rounds, with intervals that hold for few rounds on a noisy machine.

A round gives one log ratio per arm. Their mean is trimmed by a fifth on each side, because a
neighbour that takes the processor for the length of one block pulls a plain mean, and half a dozen
rounds leave a median imprecise. The interval is Student's t on the winsorised variance (Tukey and
McLaughlin 1963): the percentile bootstrap of 8 to 20 rounds is too narrow, see
`tests/unit/tune/test_trial_statistics.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

from outpace._dataclass import dataclass

TRIMMED = 0.2
LEVEL = 0.95  # of every interval that is shown
STRICT = 0.99  # of intervals that the search looks at again and again
SUSPECT = 0.98  # of the one at the search's end that sends an arm to the confirmation
CHANCE = 1.28  # standard errors of an autocorrelation of independent values: nine of ten are below
MOST_ALIKE = 0.8  # beyond it a few dozen values tell next to nothing, and a factor would be a guess


@dataclass(frozen=True)
class Estimate:
    """A ratio of rates with its interval, from `rounds` paired rounds; `spread` is the standard
    deviation of one round's log ratio.
    """

    ratio: float
    low: float
    high: float
    rounds: int
    spread: float

    def contains(self, ratio: float) -> bool:
        """Whether a ratio lies in the interval."""
        return self.low <= ratio <= self.high

    @property
    def half(self) -> float:
        """Half the interval's width, as a log ratio."""
        return math.log(self.high / self.low) / 2

    @property
    def reach(self) -> float:
        """How far from 1 the true ratio may be: the farther end, as a log ratio."""
        return max(abs(math.log(self.low)), abs(math.log(self.high)))


def log_ratios(base: Mapping[int, float], other: Mapping[int, float]) -> list[float]:
    """Log of `other` / `base` for each round that both have, in the rounds' order."""
    return [math.log(other[at] / base[at]) for at in sorted(base.keys() & other.keys())]


def compare(base: Mapping[int, float], other: Mapping[int, float], level: float = LEVEL) -> Estimate | None:
    """The ratio of two arms' rates by round; None with fewer than two common rounds.

    Rounds that resemble their neighbours tell less than as many independent ones: where they do by
    more than chance, the interval is wider.
    """
    logs = log_ratios(base, other)
    found = estimate(logs, level)
    if found is None:
        return None
    times = inflation(logs)
    low, high = (found.ratio * (end / found.ratio) ** times for end in (found.low, found.high))
    return replace(found, low=low, high=high)


def inflation(logs: Sequence[float]) -> float:
    """How much wider the interval of a mean is for the autocorrelation of its values (Bartlett
    1946, first order), 1 where it may be chance.
    """
    found = autocorrelation(logs)
    if found <= CHANCE / math.sqrt(max(len(logs), 1)):
        return 1.0
    found = min(found, MOST_ALIKE)
    return math.sqrt((1 + found) / (1 - found))


def estimate(logs: Sequence[float], level: float = LEVEL) -> Estimate | None:
    """The geometric mean of ratios, trimmed, and its interval; None for fewer than two."""
    count = len(logs)
    if count < 2:
        return None
    middle, error, kept = trimmed(logs)
    half = student(level, kept - 1) * error
    return Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half), count, error * math.sqrt(count))


def trimmed(values: Sequence[float]) -> tuple[float, float, int]:
    """The trimmed mean, its standard error, and how many values were kept, of at least two."""
    count = len(values)
    cut = int(TRIMMED * count)
    ordered = sorted(values)
    kept = ordered[cut : count - cut]
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    mean = math.fsum(winsorised) / count
    variance = math.fsum((value - mean) ** 2 for value in winsorised) / (count - 1)
    return math.fsum(kept) / len(kept), math.sqrt(variance / count) / (1 - 2 * cut / count), len(kept)


def student(level: float, freedom: int) -> float:
    """Two-sided quantile of Student's t, from its Cornish-Fisher expansion (within 1% from 3
    degrees of freedom up at 95 and 99%).
    """
    if freedom < 3:
        area = (1 + level) / 2
        if freedom == 1:
            return math.tan(math.pi * (area - 0.5))
        return (2 * area - 1) / math.sqrt(2 * area * (1 - area))
    z = NormalDist().inv_cdf((1 + level) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def autocorrelation(values: Sequence[float]) -> float:
    """Correlation of neighbouring values; 0 where it cannot be told. Ranks stand for the values, so
    that one outlier does not decide.
    """
    count = len(values)
    if count < 3:
        return 0.0
    place = {at: rank - (count - 1) / 2 for rank, at in enumerate(sorted(range(count), key=values.__getitem__))}
    total = math.fsum(rank * rank for rank in place.values())
    return math.fsum(place[at] * place[at + 1] for at in range(count - 1)) / total


def rounds_needed(spread: float, effect: float, power: float) -> int:
    """Rounds after which an interval of 95% excludes 1 with the wanted power, when the true log
    ratio is `effect`.
    """
    if effect <= 0:
        return 1_000_000
    return math.ceil(((1.96 + power) * spread / effect) ** 2)

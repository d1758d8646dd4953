# SPDX-License-Identifier: Apache-2.0
"""Ratios of rates from paired rounds, with intervals that hold for few rounds on a noisy machine.

A round gives one log ratio. The interval is Student's t about their trimmed mean (`intervals`): the
percentile bootstrap of 8 to 20 rounds is too narrow, see
`tests/unit/tune/test_trial_statistics.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from outpace._dataclass import dataclass
from outpace.stats.autocorrelation import inflation
from outpace.stats.intervals import LEVEL, student, trimmed_mean


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

    @classmethod
    def of_logs(cls, middle: float, half: float, rounds: int, error: float) -> Estimate:
        """Return the ratio whose log is `middle`, with `half` of the log's interval and the log's
        standard error.
        """
        return cls(math.exp(middle), math.exp(middle - half), math.exp(middle + half), rounds, error * math.sqrt(rounds))


def log_ratios(base: Mapping[int, float], other: Mapping[int, float]) -> list[float]:
    """Return the log of `other` / `base` for each round that both have, in the rounds' order."""
    return [math.log(other[number] / base[number]) for number in sorted(base.keys() & other.keys())]


def compare_rounds(base: Mapping[int, float], other: Mapping[int, float], level: float = LEVEL) -> Estimate | None:
    """Return the ratio of two arms' rates by round; None with fewer than two common rounds.

    Rounds that resemble their neighbours tell less than as many independent ones: where they do by
    more than chance, the interval is wider.
    """
    logs = log_ratios(base, other)
    estimate = estimate_ratio(logs, level)
    if estimate is None:
        return None
    times = inflation(logs)
    low, high = (estimate.ratio * (end / estimate.ratio) ** times for end in (estimate.low, estimate.high))
    return replace(estimate, low=low, high=high)


def estimate_ratio(logs: Sequence[float], level: float = LEVEL) -> Estimate | None:
    """Return the geometric mean of ratios, trimmed, with its interval; None for fewer than two."""
    if len(logs) < 2:
        return None
    middle, error, size = trimmed_mean(logs)
    return Estimate.of_logs(middle, student(level, size - 1) * error, len(logs), error)

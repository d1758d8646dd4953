"""Means of steps with their errors, and many tests at once.

Steps of one capture resemble their neighbours, so the error of their mean is widened for that (`tune.trial.statistics`). Captures of one
program differ by more than their steps tell: from three captures a side, their own spread is the error; with fewer it is not known, and a
stated prior stands for it (`BETWEEN`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.arrays import Values
from outpace.tune.trial.statistics import inflation, trimmed

ENOUGH = 3  # captures of a side, from which their own spread is the error
BETWEEN = {False: 0.04, True: 0.01}  # sd of the log of a step's mean, from capture to capture: on a host's cores, on devices


@dataclass(frozen=True)
class Mean:
    """value, ps; error: its standard error, of steps or of captures; freedom: degrees of it. captures: whether these differ in it."""

    value: float
    error: float
    freedom: int
    captures: bool = False

    @property
    def relative(self) -> float:
        """The error of the value's log."""
        return self.error / self.value if self.value > 0 else 0.0


def mean_of(captures: Sequence[Values]) -> Mean:
    """The mean of a part's times in the steps of some captures."""
    if len(captures) >= ENOUGH:
        means = [mean_of([times]).value for times in captures]  # as where there are fewer, which the other side may have
        return Mean(fmean(means), stdev(means) / math.sqrt(len(means)), len(means) - 1, True)
    times = np.concatenate([*captures, np.zeros(0)])
    if len(times) < 2:
        return Mean(float(times.mean()) if len(times) else 0.0, 0.0, 0)
    middle, error, kept = trimmed(times.tolist())
    if middle <= 0 < times.max():  # it runs in few of the steps
        return Mean(float(times.mean()), float(times.std(ddof=1)) / math.sqrt(len(times)), len(times) - 1)
    return Mean(middle, error * max(inflation(each.tolist()) for each in captures if len(each)), kept - 1)


def two_sided(z: float) -> float:
    """How often a standard normal number is that far from 0."""
    return math.erfc(abs(z) / math.sqrt(2))


def discoveries(chances: Sequence[float], rate: float) -> list[bool]:
    """Which of many tests to believe, so that of these at most `rate` are wrong in the mean (Benjamini and Hochberg 1995)."""
    order = sorted(range(len(chances)), key=chances.__getitem__)
    last = max((rank for rank, at in enumerate(order, 1) if chances[at] <= rate * rank / len(order)), default=0)
    believed = set(order[:last])
    return [at in believed for at in range(len(chances))]

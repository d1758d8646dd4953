"""Means of steps with their errors, and many tests at once.

Steps of one capture resemble their neighbours, so the error of their mean is widened for that
(`tune.trial.statistics`). Captures of one program differ by more than their steps tell: what they
were seen to differ by is mixed with a stated prior (`CAPTURE_LOG_SD`), which counts for as many
captures as `PRIOR_WEIGHT` says; a single capture has that prior alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.arrays import Values
from outpace.tune.trial.statistics import LEVEL, inflation, student, trimmed

CAPTURE_LOG_SD = {
    False: 0.04,
    True: 0.01,
}  # sd of the log of a step's mean, from capture to capture: on a host's cores, on devices
PRIOR_WEIGHT = 4.0  # degrees of freedom that a prior counts for
_FEWEST = 2  # captures of a side that tell how far they differ


@dataclass(frozen=True)
class Mean:
    """value, ps; sampled: its standard error where only these captures are asked of; error: that of
    the program, whose captures differ; freedom: degrees of the latter.
    """

    value: float
    sampling_error: float
    error: float
    freedom: int

    @property
    def relative_error(self) -> float:
        """The error of the value's log."""
        return self.error / self.value if self.value > 0 else 0.0


def combine_means(estimates: Sequence[tuple[float, float]], log_sd: float) -> Mean:
    """The mean of what some captures tell, each a value with its standard error."""
    count = len(estimates)
    values = [value for value, _ in estimates]
    value, sampled = fmean(values), math.fsum(error**2 for _, error in estimates) / count
    prior = (log_sd * value) ** 2 + sampled
    seen = variance(values) if count > 1 else 0.0
    apart = (PRIOR_WEIGHT * prior + (count - 1) * seen) / (PRIOR_WEIGHT + count - 1)
    return Mean(value, math.sqrt(sampled / count), math.sqrt(apart / count), int(PRIOR_WEIGHT) + count - 1)


def log_ratio_half_width(before: Sequence[float], after: Sequence[float]) -> float:
    """Half of the 95% interval of the log ratio of two sides' means, by how far captures of one
    side differ and by nothing else: of captures in turns, on which a machine that changes falls
    alike. Infinite for a single one.
    """
    freedom = len(before) + len(after) - 2
    if min(len(before), len(after)) < _FEWEST:
        return math.inf
    squares = sum((len(each) - 1) * variance(map(math.log, each)) for each in (before, after))
    return student(LEVEL, freedom) * math.sqrt(squares / freedom * (1 / len(before) + 1 / len(after)))


def mean_with_error(times: Values, hosts: Sequence[str] = ()) -> tuple[float, float]:
    """The mean of a part's times in the steps of one capture, and its standard error: trimmed where
    the part runs in all of them. hosts: the host of each step, where there are several: each has
    its own mean, and counts alike.
    """
    if hosts:
        of = np.array(hosts)
        told = [mean_with_error(times[of == host]) for host in dict.fromkeys(hosts)]
        return fmean(value for value, _ in told), math.hypot(*(error for _, error in told)) / len(told)
    count = len(times)
    if count < 2:
        return float(times.sum()), 0.0
    if np.count_nonzero(times) < count:
        value, error = float(times.mean()), float(times.std(ddof=1)) / math.sqrt(count)
    else:
        value, error, _ = trimmed(times.tolist())
    return value, error * inflation(times.tolist())


def two_sided_p_value(t: float, freedom: float) -> float:
    """How often a number of Student's t is that far from 0: by the normal one that is as rare
    (Wallace 1959).
    """
    z = math.sqrt(freedom * math.log1p(t * t / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return math.erfc(z / math.sqrt(2))


def benjamini_hochberg(p_values: Sequence[float], rate: float) -> list[bool]:
    """Which of many tests to believe, so that of these at most `rate` are wrong in the mean
    (Benjamini and Hochberg 1995).
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    last = max((rank for rank, at in enumerate(order, 1) if p_values[at] <= rate * rank / len(order)), default=0)
    believed = set(order[:last])
    return [at in believed for at in range(len(p_values))]

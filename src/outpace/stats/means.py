# SPDX-License-Identifier: Apache-2.0
"""Means of step times with their errors.

Consecutive steps of one capture are correlated, so the error of their mean is widened for that
(`autocorrelation`). Captures of one program differ by more than the variation of their steps
shows: their observed variance is pooled with a stated prior (`CAPTURE_LOG_SD`) that counts for
`PRIOR_WEIGHT` degrees of freedom; a single capture has the prior alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.arrays import Values
from outpace.stats.autocorrelation import inflation
from outpace.stats.intervals import LEVEL, student, trimmed_mean

CAPTURE_LOG_SD = {
    False: 0.04,
    True: 0.01,
}  # sd of the log of a step's mean between captures: on a host's cores, on devices
PRIOR_WEIGHT = 4.0  # degrees of freedom of the prior
_FEWEST = 2  # minimum number of captures of a side that show how far they differ


@dataclass(frozen=True)
class Mean:
    """A mean time.

    value: mean, ps
    sampling_error: standard error for these captures alone, ps
    error: standard error for the program, whose captures differ, ps
    freedom: degrees of freedom of `error`
    """

    value: float
    sampling_error: float
    error: float
    freedom: int

    @property
    def relative_error(self) -> float:
        """Standard error of the value's log; 0 where the value is not positive."""
        return self.error / self.value if self.value > 0 else 0.0


def combine_means(estimates: Sequence[tuple[float, float]], log_sd: float) -> Mean:
    """Return the mean over captures, each given as (value, standard error)."""
    count = len(estimates)
    values = [value for value, _ in estimates]
    value, sampled = fmean(values), math.fsum(error**2 for _, error in estimates) / count
    prior = (log_sd * value) ** 2 + sampled
    observed = variance(values) if count > 1 else 0.0
    apart = (PRIOR_WEIGHT * prior + (count - 1) * observed) / (PRIOR_WEIGHT + count - 1)
    return Mean(value, math.sqrt(sampled / count), math.sqrt(apart / count), int(PRIOR_WEIGHT) + count - 1)


def log_ratio_half_width(before: Sequence[float], after: Sequence[float]) -> float:
    """Return half of the 95% interval of the log ratio of two sides' means, from the variance
    between captures of one side alone: for captures in turns, on which a changing machine acts
    alike. Infinite for a single capture.
    """
    freedom = len(before) + len(after) - 2
    if min(len(before), len(after)) < _FEWEST:
        return math.inf
    squares = sum((len(side) - 1) * variance(map(math.log, side)) for side in (before, after))
    return student(LEVEL, freedom) * math.sqrt(squares / freedom * (1 / len(before) + 1 / len(after)))


def mean_with_error(times: Values, hosts: Sequence[str] = ()) -> tuple[float, float]:
    """Return (mean, standard error) of a part's times in the steps of one capture, trimmed where
    the part runs in all steps. `hosts` is the host of each step, where there are several: the
    result is the unweighted mean over hosts.
    """
    if hosts:
        host_of_step = np.array(hosts)
        estimates = [mean_with_error(times[host_of_step == host]) for host in dict.fromkeys(hosts)]
        return fmean(value for value, _ in estimates), math.hypot(*(error for _, error in estimates)) / len(estimates)
    count = len(times)
    if count < 2:
        return float(times.sum()), 0.0
    if np.count_nonzero(times) < count:
        value, error = float(times.mean()), float(times.std(ddof=1)) / math.sqrt(count)
    else:
        value, error, _ = trimmed_mean(times.tolist())
    return value, error * inflation(times.tolist())

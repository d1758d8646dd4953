# SPDX-License-Identifier: Apache-2.0
"""Autocorrelation of successive values, and how much less their mean tells than that of as many
independent ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

CHANCE = 1.28  # standard errors of an autocorrelation of independent values: nine of ten are below
MOST_ALIKE = 0.8  # beyond it a few dozen values tell next to nothing, and a factor would be a guess


def autocorrelation(values: Sequence[float]) -> float:
    """Return the correlation of neighbouring values; 0 where it cannot be told. Ranks stand for the
    values, so that one outlier does not decide.
    """
    count = len(values)
    if count < 3:
        return 0.0
    place = {at: rank - (count - 1) / 2 for rank, at in enumerate(sorted(range(count), key=values.__getitem__))}
    total = math.fsum(rank * rank for rank in place.values())
    return math.fsum(place[at] * place[at + 1] for at in range(count - 1)) / total


def inflation(values: Sequence[float]) -> float:
    """Return the factor by which the interval of a mean is wider for the autocorrelation of its
    values (Bartlett 1946, first order); 1 where that may be chance.
    """
    rho = autocorrelation(values)
    if rho <= CHANCE / math.sqrt(max(len(values), 1)):
        return 1.0
    rho = min(rho, MOST_ALIKE)
    return math.sqrt((1 + rho) / (1 - rho))


def inflated_variance(noise: float, rho: float, count: int) -> float:
    """Return the variance of a mean of `count` values with first-order autocorrelation `rho`, where
    independent ones would have `noise`.

    The mean's is g = 1 + 2 sum (1 - k/R) rho^k times as large (Bartlett 1946), and the values' own
    about it, which `noise` was estimated from, (R - g) / (R - 1) times.
    """
    g = 1 + 2 * math.fsum((1 - k / count) * rho**k for k in range(1, count))
    return noise * g * (count - 1) / (count - g)

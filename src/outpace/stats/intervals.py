# SPDX-License-Identifier: Apache-2.0
"""Parts of an interval of a mean: trimmed mean, standard error and Student's quantile.

A mean of few values on a noisy machine is trimmed by a fifth on each side, because a neighbour that
takes the processor for a moment pulls a plain mean, and half a dozen values leave a median
imprecise. The standard error is of the winsorised variance (Tukey and McLaughlin 1963).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

TRIMMED = 0.2
LEVEL = 0.95  # of every interval that is shown


def trimmed_size(count: int) -> int:
    """Return how many of so many values a trimmed mean keeps."""
    return count - 2 * int(TRIMMED * count)


def trimmed_mean(values: Sequence[float]) -> tuple[float, float, int]:
    """Return the trimmed mean of at least two values, its standard error, and how many of them were
    kept.
    """
    count = len(values)
    cut = int(TRIMMED * count)
    ordered = sorted(values)
    central = ordered[cut : count - cut]
    winsorised = [central[0]] * cut + central + [central[-1]] * cut
    mean = math.fsum(winsorised) / count
    variance = math.fsum((value - mean) ** 2 for value in winsorised) / (count - 1)
    return math.fsum(central) / len(central), math.sqrt(variance / count) / (1 - 2 * cut / count), len(central)


def student(level: float, freedom: int) -> float:
    """Return the two-sided quantile of Student's t, from its Cornish-Fisher expansion (within 1%
    from 3 degrees of freedom up at 95 and 99%).
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

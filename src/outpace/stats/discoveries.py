# SPDX-License-Identifier: Apache-2.0
"""Many tests at once: p-values, and control of the share of false discoveries."""

from __future__ import annotations

import math
from collections.abc import Sequence


def two_sided_p_value(t: float, freedom: float) -> float:
    """Return the two-sided p-value of Student's t, from the normal number that is as rare (Wallace
    1959).
    """
    z = math.sqrt(freedom * math.log1p(t * t / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return math.erfc(z / math.sqrt(2))


def benjamini_hochberg(p_values: Sequence[float], rate: float) -> list[bool]:
    """Return for each test whether it is significant, so that the expected share of false ones
    among these is at most `rate` (Benjamini and Hochberg 1995).
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    last = max((rank for rank, at in enumerate(order, 1) if p_values[at] <= rate * rank / len(order)), default=0)
    believed = set(order[:last])
    return [at in believed for at in range(len(p_values))]

"""What a change may change in the results of a training."""

from __future__ import annotations

from enum import Enum


class Risk(str, Enum):
    """What a rewrite may change. EXACT: nothing. REORDERED: the same elements, or additions, in another order: rounding. STATISTICAL: which
    element gets which random number, or when Python runs."""

    EXACT = "exact"
    REORDERED = "reordered"
    STATISTICAL = "statistical"

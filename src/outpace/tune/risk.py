# SPDX-License-Identifier: Apache-2.0
"""What a change may change in the results of a training."""

from __future__ import annotations

from enum import Enum


class Risk(str, Enum):
    """What a rewrite may change. EXACT: nothing. REORDERED: the same additions in another order:
    rounding. ORDER: the same examples, in another order or in other batches. STATISTICAL: which
    element gets which random number, or when Python runs.
    """

    EXACT = "exact"
    REORDERED = "reordered"
    ORDER = "order"
    STATISTICAL = "statistical"

    @property
    def consent(self) -> str:
        """The class that the user has to allow (`--allow`) before it is kept; empty where none is
        needed.
        """
        return self.value if self.value in CONSENTS else ""


CONSENTS = {
    "order": "the same examples in another order or in other batches",
    "statistical": "other random numbers",
}  # what each means

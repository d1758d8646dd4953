# SPDX-License-Identifier: Apache-2.0
"""What the instructions of a program cost: arithmetic operations, and bytes of memory."""

from __future__ import annotations

from outpace._dataclass import dataclass

CONTROL_OPCODES = frozenset(("while", "conditional", "call"))
"""Opcodes that only run other instructions: their own time is what starting these takes."""
_MOST = 1e20  # maximum operations or bytes; more is damage


@dataclass(frozen=True)
class Cost:
    """Cost of executions of one or several instructions.

    flops: arithmetic operations, a multiply-add as two; transcendental functions and random numbers
        count none, as in XLA's own count.
    product_flops: of these, the operations of matrix products and convolutions.
    bytes: bytes of memory that are read and written.
    is_complete: whether all of the operations are counted; False where a library's call is included
        whose arithmetic is not known.
    """

    flops: float = 0.0
    product_flops: float = 0.0
    bytes: float = 0.0
    is_complete: bool = True

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.product_flops + other.product_flops,
            self.bytes + other.bytes,
            self.is_complete and other.is_complete,
        )

    def times(self, count: float) -> Cost:
        """Return the cost of `count` executions."""
        return Cost(self.flops * count, self.product_flops * count, self.bytes * count, self.is_complete)

    @property
    def is_plausible(self) -> bool:
        """Whether a real program can have this cost; only damage leads to more."""
        return max(self.flops, self.bytes) < _MOST


NO_COST = Cost()
"""Cost of what executes nothing."""
UNKNOWN_COST = Cost(is_complete=False)
"""Cost of a library's call of which nothing is known."""


def product_cost(flops: float, moved_bytes: float = 0.0) -> Cost:
    """Return the cost of a matrix product or convolution."""
    return Cost(flops, flops, moved_bytes)

"""Short loops that say how fast the machine is beside a capture: arithmetic, memory, and one of
Python. Standard library only.

A program all of whose work takes twice as long looks the same on a machine that is half as fast;
these loops do not change with the program. Each is repeated, and its fastest run counts, since a
neighbour or the program's own threads interrupt some of them. All three take about 20 milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

REPEATS = 4
_BITS = 63_000  # of a number whose product with itself is arithmetic on what lies in the first-level cache
_BYTES = 16 << 20  # more than a core's own caches hold
_ROUNDS = 10_000


def calibrate() -> dict[str, int]:
    """The fastest of some runs of each loop, ns: `arithmetic`, `memory` and `Python`.

    Example: `calibrate()` gives `{"arithmetic": 571000, "memory": 642000, "Python": 264000}` on one
    machine.
    """
    number = (1 << _BITS) // 3
    source, target = bytes(_BYTES), memoryview(bytearray(_BYTES))

    def copy() -> None:
        target[:] = source

    loops: dict[str, Callable[[], object]] = {"arithmetic": lambda: number * number, "memory": copy, "Python": _count}
    return {name: _fastest(loop) for name, loop in loops.items()}


def _fastest(loop: Callable[[], object]) -> int:
    best = 0
    for _ in range(REPEATS + 1):  # the first one meets cold caches and pages that are not there yet
        began = time.perf_counter_ns()
        loop()
        took = max(time.perf_counter_ns() - began, 1)
        best = min(best, took) if best else took
    return best


def _count() -> int:
    total = 0
    for number in range(_ROUNDS):
        total += number & 3
    return total

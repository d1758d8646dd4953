# SPDX-License-Identifier: Apache-2.0
"""Measures how fast the machine is during a capture, with three short loops: arithmetic, memory and
Python. Standard library only.

A program all of whose work takes twice as long looks the same on a machine that is half as fast;
these loops do not change with the program. Each loop is repeated and its fastest run counts,
because other processes or the program's own threads interrupt some runs. All three take about 20
milliseconds together.
"""

from __future__ import annotations

import time
from collections.abc import Callable

REPEATS = 4
_NUMBER_BITS = 63_000  # bits of a number that is squared: the arithmetic stays in the first-level cache
_COPY_BYTES = 16 << 20  # size of the copied buffer: larger than the caches of one core
_LOOP_ROUNDS = 10_000


def calibrate() -> dict[str, int]:
    """Return the fastest run of each loop, ns, by the loop's name: `arithmetic`, `memory` and
    `Python`.

    Example: `calibrate()` returns `{"arithmetic": 571000, "memory": 642000, "Python": 264000}` on
    one machine.
    """
    number = (1 << _NUMBER_BITS) // 3
    source, target = bytes(_COPY_BYTES), memoryview(bytearray(_COPY_BYTES))

    def copy() -> None:
        target[:] = source

    loops: dict[str, Callable[[], object]] = {"arithmetic": lambda: number * number, "memory": copy, "Python": _sum_in_python}
    return {name: _fastest_run_ns(loop) for name, loop in loops.items()}


def _fastest_run_ns(loop: Callable[[], object]) -> int:
    """Return the shortest duration of `REPEATS` runs of a loop after a first one, ns."""
    best_ns = 0
    for _ in range(REPEATS + 1):  # the first run has cold caches and page faults
        start_ns = time.perf_counter_ns()
        loop()
        duration_ns = max(time.perf_counter_ns() - start_ns, 1)
        best_ns = min(best_ns, duration_ns) if best_ns else duration_ns
    return best_ns


def _sum_in_python() -> int:
    """Run the loop of Python, and return the sum that it computes."""
    total = 0
    for number in range(_LOOP_ROUNDS):
        total += number & 3
    return total

"""Sides of a comparison that were never captured: a program of many parts on a machine whose
classes of work are slow by turns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from outpace.compare.evidence import Machine
from outpace.compare.side import INPUT_PIPELINE, STEP_SIDE, CaptureTimes, PartKey, Side
from outpace.model import Category
from outpace.model.arrays import Values

TYPES = {"MatMul": 0, "Conv2D": 0, "AddV2": 1, "Mul": 1, "Cast": 1, "Dataset": 2}
PYTHON: PartKey = (STEP_SIDE, "All others", "All others")
STEP = 20e9  # ps


def program(rng: np.random.Generator, count: int = 100) -> dict[PartKey, float]:
    """Parts and their times, ps: few large ones and many small."""
    shares = rng.lognormal(0, 1.6, count)
    kinds = rng.choice(list(TYPES), count)
    names = [
        f"Iterator::Map::S{at}" if kind == "Dataset" else f"layer/{chr(97 + at % 26)}{chr(97 + at // 26)}"
        for at, kind in enumerate(kinds)
    ]
    where = [INPUT_PIPELINE if kind == "Dataset" else "Host" for kind in kinds]
    times = (STEP * shares / shares.sum()).tolist()
    made = {(side, str(kind), name): time for side, kind, name, time in zip(where, kinds, names, times, strict=True)}
    return made | {PYTHON: 0.03 * STEP}


def capture(
    rng: np.random.Generator, times: Mapping[PartKey, float], machine: float = 0.2, steps: int = 30, slower: float = 1.0
) -> CaptureTimes:
    """One capture; machine: sd of the log of what it changes, as a whole and by class, which the
    loops that it timed show; slower: by how much it is slower beyond that.
    """
    whole, classes = rng.normal(math.log(slower), machine), rng.normal(0, 0.4 * machine, 4)
    alike = np.exp(rng.normal(0, 0.05, steps))
    parts: dict[PartKey, Values] = {}
    for part, time in times.items():
        factor = np.exp(whole + classes[TYPES.get(part[1], 3)] + rng.normal(0, 0.03))
        parts[part] = time * factor * alike * np.exp(rng.normal(0, 0.1, steps))
    zero, whole_step = np.zeros(steps), np.asarray(sum(parts.values()), np.float64)
    loops = {loop: 1e6 * float(np.exp(whole + classes[at])) for loop, at in (("arithmetic", 0), ("memory", 1), ("Python", 3))}
    return CaptureTimes(parts, whole_step, dict.fromkeys(Category, zero), machine=Machine(loops, 0.0))


def side(name: str, captures: Sequence[CaptureTimes], **facts: str) -> Side:
    """A side that has these captures and these facts."""
    return Side(name, tuple(captures), facts)


def sides(
    rng: np.random.Generator,
    before: Mapping[PartKey, float],
    after: Mapping[PartKey, float],
    captures: int = 1,
    machine: float = 0.2,
    slower: float = 1.0,
) -> tuple[Side, Side]:
    """Both sides of a comparison, each of so many captures; slower: by how much the second side's
    machine is.
    """
    one, two = (
        [capture(rng, times, machine, slower=factor) for _ in range(captures)]
        for times, factor in ((before, 1.0), (after, slower))
    )
    return side("before", one), side("after", two)

"""Sides of a comparison that were never captured: a program of many parts on a machine whose classes of work are slow by turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from outpace.compare.side import BESIDE, OF_INPUT, Capture, Part, Side
from outpace.model import Category
from outpace.model.arrays import Values

TYPES = {"MatMul": 0, "Conv2D": 0, "AddV2": 1, "Mul": 1, "Cast": 1, "Dataset": 2}
PYTHON: Part = (BESIDE, "All others", "All others")
STEP = 20e9  # ps


def program(rng: np.random.Generator, count: int = 100) -> dict[Part, float]:
    """Parts and their times, ps: few large ones and many small."""
    shares = rng.lognormal(0, 1.6, count)
    kinds = rng.choice(list(TYPES), count)
    names = [
        f"Iterator::Map::S{at}" if kind == "Dataset" else f"layer/{chr(97 + at % 26)}{chr(97 + at // 26)}"
        for at, kind in enumerate(kinds)
    ]
    where = [OF_INPUT if kind == "Dataset" else "Host" for kind in kinds]
    times = (STEP * shares / shares.sum()).tolist()
    made = {(side, str(kind), name): time for side, kind, name, time in zip(where, kinds, names, times, strict=True)}
    return made | {PYTHON: 0.03 * STEP}


def capture(rng: np.random.Generator, times: Mapping[Part, float], machine: float = 0.2, steps: int = 30) -> Capture:
    """One capture; machine: sd of the log of what it changes, as a whole and by class."""
    whole, classes = rng.normal(0, machine), rng.normal(0, 0.4 * machine, 4)
    alike = np.exp(rng.normal(0, 0.05, steps))
    parts: dict[Part, Values] = {}
    for part, time in times.items():
        factor = np.exp(whole + classes[TYPES.get(part[1], 3)] + rng.normal(0, 0.03))
        parts[part] = time * factor * alike * np.exp(rng.normal(0, 0.1, steps))
    zero = np.zeros(steps)
    return Capture(parts, np.asarray(sum(parts.values()), np.float64), dict.fromkeys(Category, zero))


def side(name: str, captures: Sequence[Capture], **facts: str) -> Side:
    """A side that has these captures and these facts."""
    return Side(name, tuple(captures), facts)


def sides(
    rng: np.random.Generator, before: Mapping[Part, float], after: Mapping[Part, float], captures: int = 1, machine: float = 0.2
) -> tuple[Side, Side]:
    """Both sides of a comparison, each of so many captures."""
    one, two = ([capture(rng, times, machine) for _ in range(captures)] for times in (before, after))
    return side("before", one), side("after", two)

"""Sides of a comparison made from those of a profile: jittered captures, in which one part takes so
many steps more.

The machine differs from capture to capture by 3 %, parts by 4 % beyond that, as logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

import outpace
from outpace.compare import Side
from outpace.compare.side import CaptureTimes, PartKey

PROFILES = Path(__file__).parents[1] / "data" / "profiles"
NAMES = sorted(
    each.name for each in PROFILES.iterdir() if each.name not in ("idle_empty", "jax_h100_ok_resnet")
)  # which hold no step
PARTS = 14
_MACHINE, _PART = 0.03, 0.04


class Planted(NamedTuple):
    """Both sides, and the part of the second one that takes `more` steps more."""

    part: PartKey
    more: float
    before: Side
    after: Side


@cache
def side_of(name: str) -> Side:
    """The side that a profile is."""
    with outpace.open(PROFILES / name) as profile:
        return Side.from_runs(name, profile.run)


def parts_of(capture: CaptureTimes, count: int = PARTS) -> list[PartKey]:
    """Some parts of a capture, large and small: the first, and of the others those at ranks that
    grow by one ratio.
    """
    parts = sorted(capture.part_ps, key=lambda part: (-float(capture.part_ps[part].mean()), part))
    ranks = {round(float(rank)) for rank in np.geomspace(1, len(parts), min(count, len(parts)))}
    chosen = [parts[rank - 1] for rank in sorted(ranks)]
    return (chosen + [part for part in parts if part not in chosen])[:count]


def jittered(rng: np.random.Generator, capture: CaptureTimes, slower: float = 1.0) -> CaptureTimes:
    """The capture as another one of the same program, whose work takes so many times as long."""
    machine = slower * np.exp(rng.normal(0, _MACHINE))
    parts = {part: times * machine * np.exp(rng.normal(0, _PART)) for part, times in capture.part_ps.items()}
    return replace(capture, part_ps=parts, step_ps=capture.step_ps * machine)


def grown(capture: CaptureTimes, part: PartKey, more: float) -> CaptureTimes:
    """The capture with a part that takes so much more in every step, ps; whoever takes that much is
    no short op.
    """
    parts = capture.part_ps | {part: capture.part_ps[part] + more}
    return replace(capture, part_ps=parts, step_ps=capture.step_ps + more, short_parts=capture.short_parts - {part})


def sides(name: str, seed: int, captures: int, slower: float = 1.0) -> tuple[Side, Side]:
    """Two sides of one program, of so many captures each; the second one's work takes so many times
    as long.
    """
    rng, side = np.random.default_rng([seed, crc32(name.encode()), captures]), side_of(name)
    before, after = (tuple(jittered(rng, side.captures[0], factor) for _ in range(captures)) for factor in (1.0, slower))
    return replace(side, name="before", captures=before), replace(side, name="after", captures=after)


def planted(name: str, more: float, captures: int, count: int = PARTS) -> Iterator[Planted]:
    """Pairs of sides of a profile, in each of which another part takes so many steps more."""
    capture = side_of(name).captures[0]
    for number, part in enumerate(parts_of(capture, count)):
        before, after = sides(name, 100 * number + round(10 * more), captures)
        slow = tuple(grown(each, part, more * float(capture.step_ps.mean())) for each in after.captures)
        yield Planted(part, more, before, replace(after, captures=slow))

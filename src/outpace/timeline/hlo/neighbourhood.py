# SPDX-License-Identifier: Apache-2.0
"""What is near an instruction of a program: where its operands come from, and where its result
goes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from outpace._dataclass import dataclass
from outpace.timeline.hlo.graph import HloGraph, Instruction

MOST_NODES = 200  # of a neighbourhood


@dataclass(frozen=True)
class Neighbourhood:
    """Instructions near one of them.

    nodes: (instruction, distance), in the order of the data: negative distances lead to the
        instruction, positive ones away from it.
    is_whole: whether all are listed that are as near.
    """

    nodes: Sequence[tuple[Instruction, int]]
    is_whole: bool


def find_neighbourhood(graph: HloGraph, name: str, radius: int) -> Neighbourhood:
    """Return what is at most `radius` instructions away from the one called `name`, the nearest of
    them where they are more than `MOST_NODES`. Raises KeyError where the program has none.
    """
    centre = graph.by_name[name]
    above = _walk(centre, radius, lambda each: each.operands)
    below = _walk(centre, radius, lambda each: each.users)
    nearest = sorted([*((each, -far) for each, far in above), *below], key=lambda node: abs(node[1]))
    chosen = [(centre, 0), *nearest[: MOST_NODES - 1]]
    return Neighbourhood(sorted(chosen, key=lambda node: node[1]), len(nearest) < MOST_NODES)


def _walk(
    centre: Instruction, radius: int, neighbours: Callable[[Instruction], Sequence[Instruction]]
) -> list[tuple[Instruction, int]]:
    """Return (instruction, distance) of what one direction leads to."""
    seen, waiting = {centre}, deque([(centre, 0)])
    found: list[tuple[Instruction, int]] = []
    while waiting:
        each, far = waiting.popleft()
        for other in neighbours(each) if far < radius else ():
            if other not in seen:
                seen.add(other)
                found.append((other, far + 1))
                waiting.append((other, far + 1))
    return found

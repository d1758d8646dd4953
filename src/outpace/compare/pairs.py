"""Which part of one side is which of the other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from outpace.compare.side import Part

_COUNTER = re.compile(r"(?<=[A-Za-z])_?\d+\b|\.\d+\b")  # what a framework appends to tell names apart


def pairs(before: Sequence[Part], after: Sequence[Part]) -> list[tuple[Part, Part]]:
    """Parts of both sides. Those whose names are alike without their counters belong together: as many on both sides are the same in order,
    else by name, and what is left in order. A part that the other side has nothing for is paired with itself."""
    here, there = _groups(before), _groups(after)
    found = []
    for plain in dict.fromkeys((*here, *there)):
        found += _of_one(here.get(plain, []), there.get(plain, []))
    return found


def _of_one(before: list[Part], after: list[Part]) -> list[tuple[Part, Part]]:
    """Of parts that their counters alone tell apart."""
    if len(before) == len(after):
        return list(zip(before, after, strict=True)) if set(before) != set(after) else [(part, part) for part in before]
    common = set(before) & set(after)
    left, right = ([part for part in parts if part not in common] for parts in (before, after))
    found = [(part, part) for part in before if part in common]
    found += zip(left, right, strict=False)
    rest = (left if len(left) > len(right) else right)[min(len(left), len(right)) :]
    return found + [(part, part) for part in rest]


def _groups(parts: Sequence[Part]) -> dict[tuple[str, ...], list[Part]]:
    found: dict[tuple[str, ...], list[Part]] = {}
    for part in parts:
        found.setdefault((part[0], part[1], _COUNTER.sub("", part[2])), []).append(part)
    return found

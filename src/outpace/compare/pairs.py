"""Which part of one side is which of the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

PartKey = tuple[str, str, str]  # side (Host, Device, Input or Step), type, name

_COUNTER = re.compile(r"(?<=[A-Za-z])_?\d+\b|\.\d+\b")  # what a framework appends to tell names apart
_CALL = re.compile(
    r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+"
)  # what TensorFlow puts before ops of functions that it inlines


def pair_parts(before: Sequence[PartKey], after: Sequence[PartKey]) -> list[tuple[PartKey, PartKey]]:
    """Parts of both sides. Those whose names are alike without their counters, and without the
    calls that they were inlined from, belong together: as many on both sides are the same in order,
    else by name, and what is left in order. Of the rest, as many of one type in one scope, which
    holds other words in between, are the same in order. A part that the other side has nothing for
    is paired with itself.
    """
    here, there = _groups(before, _plain), _groups(after, _plain)
    found = [pair for plain in dict.fromkeys((*here, *there)) for pair in _of_one(here.get(plain, []), there.get(plain, []))]
    old, new = set(before), set(after)
    gone = [part for part, other in found if part == other and part not in new]
    come = [part for part, other in found if part == other and part not in old]
    here, there = _groups(gone, _scope), _groups(come, _scope)
    alike = {scope for scope in here.keys() & there.keys() if scope[2] and len(here[scope]) == len(there[scope])}
    renamed = [pair for scope in here if scope in alike for pair in zip(here[scope], there[scope], strict=True)]
    lone = {part for pair in renamed for part in pair}
    return [(part, other) for part, other in found if not (part == other and part in lone)] + renamed


def _plain(part: PartKey) -> PartKey:
    return part[0], part[1], _COUNTER.sub("", _CALL.sub("", part[2]))


def _scope(part: PartKey) -> PartKey:
    """The scope of the layer whose op it is, as `gradient_tape/model/conv`: an op stands below the
    one of its forward pass.
    """
    return part[0], part[1], "/".join(_plain(part)[2].split("/")[:-2])


def _of_one(before: list[PartKey], after: list[PartKey]) -> list[tuple[PartKey, PartKey]]:
    """Of parts that their counters alone tell apart."""
    if len(before) == len(after):
        return list(zip(before, after, strict=True)) if set(before) != set(after) else [(part, part) for part in before]
    common = set(before) & set(after)
    left, right = ([part for part in parts if part not in common] for parts in (before, after))
    found = [(part, part) for part in before if part in common]
    found += zip(left, right, strict=False)
    rest = (left if len(left) > len(right) else right)[min(len(left), len(right)) :]
    return found + [(part, part) for part in rest]


def _groups(parts: Sequence[PartKey], key: Callable[[PartKey], PartKey]) -> dict[PartKey, list[PartKey]]:
    found: dict[PartKey, list[PartKey]] = {}
    for part in parts:
        found.setdefault(key(part), []).append(part)
    return found

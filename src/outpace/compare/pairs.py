# SPDX-License-Identifier: Apache-2.0
"""Pairing of the parts of two sides by type and name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outpace._lazy import compile_lazily

PartKey = tuple[str, str, str]  # (side, type, name); side is Host, Device, Input or Step

_COUNTER = compile_lazily(r"(?<=[A-Za-z])_?\d+\b|\.\d+\b")  # counter that a framework appends to make names unique
_CALL = compile_lazily(
    r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+"
)  # what TensorFlow puts before ops of functions that it inlines


def pair_parts(before: Sequence[PartKey], after: Sequence[PartKey]) -> list[tuple[PartKey, PartKey]]:
    """Return the pairs of parts that correspond on both sides.

    Parts correspond whose names are equal without their counters and without the calls that they
    were inlined from: in order where both sides have the same number of them, else first by full
    name and the rest in order. Of the remaining parts, those of one type in one scope correspond in
    order where both sides have the same number of them, even if their names differ. A part without
    a counterpart is paired with itself.
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
    """Return the part's key with the scope of its layer as the name, as `gradient_tape/model/conv`:
    an op of the backward pass is named below the op of its forward pass.
    """
    return part[0], part[1], "/".join(_plain(part)[2].split("/")[:-2])


def _of_one(before: list[PartKey], after: list[PartKey]) -> list[tuple[PartKey, PartKey]]:
    """Return the pairs among parts whose names differ only in their counters."""
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

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
    groups_before, groups_after = _groups(before, _plain_key), _groups(after, _plain_key)
    pairs = [
        pair
        for plain in dict.fromkeys((*groups_before, *groups_after))
        for pair in _pair_equal_names(groups_before.get(plain, []), groups_after.get(plain, []))
    ]
    parts_before, parts_after = set(before), set(after)
    gone_parts = [part for part, other in pairs if part == other and part not in parts_after]
    new_parts = [part for part, other in pairs if part == other and part not in parts_before]
    gone_scopes, new_scopes = _groups(gone_parts, _scope_key), _groups(new_parts, _scope_key)
    shared_scopes = {
        scope
        for scope in gone_scopes.keys() & new_scopes.keys()
        if scope[2] and len(gone_scopes[scope]) == len(new_scopes[scope])
    }
    renamed = [
        pair
        for scope in gone_scopes
        if scope in shared_scopes
        for pair in zip(gone_scopes[scope], new_scopes[scope], strict=True)
    ]
    renamed_parts = {part for pair in renamed for part in pair}
    return [(part, other) for part, other in pairs if not (part == other and part in renamed_parts)] + renamed


def _plain_key(part: PartKey) -> PartKey:
    return part[0], part[1], _COUNTER.sub("", _CALL.sub("", part[2]))


def _scope_key(part: PartKey) -> PartKey:
    """Return the part's key with the scope of its layer as the name, as `gradient_tape/model/conv`:
    an op of the backward pass is named below the op of its forward pass.
    """
    return part[0], part[1], "/".join(_plain_key(part)[2].split("/")[:-2])


def _pair_equal_names(before: list[PartKey], after: list[PartKey]) -> list[tuple[PartKey, PartKey]]:
    """Return the pairs among parts whose names differ only in their counters."""
    if len(before) == len(after):
        return list(zip(before, after, strict=True)) if set(before) != set(after) else [(part, part) for part in before]
    common = set(before) & set(after)
    rest_before, rest_after = ([part for part in parts if part not in common] for parts in (before, after))
    pairs = [(part, part) for part in before if part in common]
    pairs += zip(rest_before, rest_after, strict=False)
    rest = (rest_before if len(rest_before) > len(rest_after) else rest_after)[min(len(rest_before), len(rest_after)) :]
    return pairs + [(part, part) for part in rest]


def _groups(parts: Sequence[PartKey], key: Callable[[PartKey], PartKey]) -> dict[PartKey, list[PartKey]]:
    groups: dict[PartKey, list[PartKey]] = {}
    for part in parts:
        groups.setdefault(key(part), []).append(part)
    return groups

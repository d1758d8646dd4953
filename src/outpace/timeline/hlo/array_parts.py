# SPDX-License-Identifier: Apache-2.0
"""Parts of arrays, dimension by dimension."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from outpace.timeline.hlo.graph import Instruction
from outpace.timeline.hlo.shape import Shape

Sizes = Sequence[int]


class Factor(NamedTuple):
    """A part of one dimension.

    size: number of positions of the dimension.
    places: (which positions, their share of all) of what is covered; None for the whole. Equal
        places are the same positions; others may be any.
    """

    size: int
    places: frozenset[tuple[Hashable, float]] | None = None

    @property
    def share(self) -> float:
        """Share of the positions that is covered at most."""
        return 1.0 if self.places is None else min(1.0, sum(share for _, share in self.places))


Dimension = tuple[Factor, ...]


class Part(NamedTuple):
    """A part of an array.

    dimensions: for each dimension, the parts of those that were merged into it, in order; of one
        alone, where none were.
    cause: the instruction that takes or fills no more than that.
    """

    dimensions: tuple[Dimension, ...]
    cause: Instruction

    @property
    def share(self) -> float:
        """Share of the array's elements."""
        return math.prod(map(dimension_share, self.dimensions))


def dimension_share(dimension: Dimension) -> float:
    """Return the share of a dimension that is covered."""
    return math.prod(factor.share for factor in dimension)


def whole_array(sizes: Sizes) -> list[Dimension]:
    """Return the dimensions of a whole array."""
    return [(Factor(size),) for size in sizes]


def some_positions(size: int, place: Hashable, share: float) -> Dimension:
    """Return a dimension of which one place is covered."""
    return (Factor(size, frozenset([(place, share)])) if share < 1 else Factor(size),)


def build_part(dimensions: Iterable[Dimension], cause: Instruction) -> Part | None:
    """Return a part of an array; None where it is the whole."""
    part = Part(tuple(dimensions), cause)
    return part if part.share < 1 else None


def place_in(dimension: Dimension, size: int, whole: int, place: Hashable) -> Dimension:
    """Return a dimension of which a place of some size is covered as far as a smaller one is."""
    if size == whole:
        return dimension
    inner = place if dimension_share(dimension) == 1 else (place, dimension)
    return some_positions(whole, inner, dimension_share(dimension) * min(1.0, size / max(whole, 1)))


def reshape_part(dimensions: Sequence[Dimension], source: Instruction, target: Instruction) -> list[Dimension]:
    """Return a part of one array in the shape of another that holds the same elements in the same
    order: of a bitcast in that of memory. Dimensions that were merged are split again; one that is
    split elsewhere is taken as whole, since its positions are not known.
    """
    is_in_memory = "bitcast" in (source.opcode, target.opcode)
    before, after = source.shapes[0], target.shapes[0]
    orders = [_memory_order(shape) if is_in_memory else list(range(len(shape.dimensions))) for shape in (before, after)]
    ordered = [dimensions[at] for at in orders[0]]
    result = whole_array(after.dimensions)
    for old, new in _groups([before.dimensions[at] for at in orders[0]], [after.dimensions[at] for at in orders[1]]):
        left = [factor for at in old for factor in ordered[at] if factor.size > 1]
        for at in new:
            own, left = _split(left, after.dimensions[orders[1][at]])
            if own is None:
                break
            result[orders[1][at]] = own
    return result


def _memory_order(shape: Shape) -> list[int]:
    """Return the dimensions of an array, slowest first in memory."""
    order = shape.minor_to_major[::-1]
    return order if sorted(order) == list(range(len(shape.dimensions))) else list(range(len(shape.dimensions)))


def _split(factors: Sequence[Factor], size: int) -> tuple[Dimension | None, list[Factor]]:
    """Return (the first of these factors that make up a dimension of some size, the others); None
    where they cannot be split there.
    """
    own: list[Factor] = []
    left, covered = list(factors), 1
    while covered < size and left:
        factor = left.pop(0)
        fits = math.gcd(factor.size, size // covered)
        if fits < factor.size:
            if factor.places is not None or fits == 1:
                return None, left
            left.insert(0, Factor(factor.size // fits))
        own.append(factor if fits == factor.size else Factor(fits))
        covered *= fits
    return (tuple(own) or (Factor(size),) if covered == size else None), left


def _groups(before: Sizes, after: Sizes) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the smallest groups of neighbouring dimensions of two shapes with the same number of
    elements.
    """
    a = b = 0
    while a < len(before) or b < len(after):
        old, new = [], []
        left = right = 1
        while True:
            if left <= right and a < len(before):
                left *= before[a]
                old.append(a)
                a += 1
            elif b < len(after):
                right *= after[b]
                new.append(b)
                b += 1
            else:
                break
            if left == right and old and new:
                break
        yield old, new


def merge_parts(parts: Iterable[Part | None]) -> Part | None:
    """Return a part that covers all of these; None for the whole array."""
    merged: Part | None = None
    for part in parts:
        if part is None:
            return None
        if merged is not None:
            part = Part(tuple(map(_cover, merged.dimensions, part.dimensions)), merged.cause)
        merged = part
    return merged if merged is None or merged.share < 1 else None


def _cover(first: Dimension, second: Dimension) -> Dimension:
    """Return what covers two parts of a dimension."""
    if [factor.size for factor in first] != [factor.size for factor in second]:
        size = math.prod(factor.size for factor in first)
        first, second = (some_positions(size, dimension, dimension_share(dimension)) for dimension in (first, second))
    pairs = zip(first, second, strict=True)
    return tuple(Factor(a.size, None if a.places is None or b.places is None else a.places | b.places) for a, b in pairs)


def has_rank(array: Instruction, part: Part) -> bool:
    """Whether a part has the dimensions of an array, as in all but damaged programs."""
    return bool(array.shapes) and len(array.shapes[0].dimensions) == len(part.dimensions)

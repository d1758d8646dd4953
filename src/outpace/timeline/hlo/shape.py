# SPDX-License-Identifier: Apache-2.0
"""Shapes of arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from outpace.timeline.hlo.wire import Message, iter_parts

_TYPE, _DIMENSIONS, _TUPLE, _LAYOUT = 2, 3, 4, 5  # ShapeProto
_ORDER, _ELEMENT_BITS, _MEMORY_SPACE = 1, 7, 8  # LayoutProto
_MOST = 2**60  # maximum number of elements of an array; more are damage
_DEEPEST = 20  # maximum depth of nested tuples; deeper ones are damage
_TYPES = dict(
    enumerate(["pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "f32", "f64"], 1)
)  # names in a program's text
_TYPES |= {15: "c64", 16: "bf16", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4"}
_SIZES = {  # bytes per element by `PrimitiveType` unless the layout packs them; missing types have no size (tuples, tokens)
    **dict.fromkeys((1, 2, 6, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33), 1),
    **dict.fromkeys((3, 7, 10, 16), 2),
    **dict.fromkeys((4, 8, 11), 4),
    **dict.fromkeys((5, 9, 12, 15), 8),
    18: 16,
}


class Shape:
    """Shape of one array.

    element_type: `PrimitiveType` of xla_data.proto.
    dimensions: sizes.
    minor_to_major: order of the dimensions in memory, fastest first.
    memory_space: memory space of the array; 0 is the device's own memory.
    """

    def __init__(self, data: bytes) -> None:
        fields = Message(data)
        layout = fields.message(_LAYOUT)
        self.element_type, self.dimensions = fields.integer(_TYPE), fields.numbers(_DIMENSIONS)
        self.minor_to_major, self.memory_space = layout.numbers(_ORDER), layout.integer(_MEMORY_SPACE, 0)
        self._packed_bits = layout.integer(_ELEMENT_BITS, 0)  # bits per element where several share a byte, else 0

    def __str__(self) -> str:
        """Return the shape as in a program's text: `f32[64,264]`."""
        return f"{_TYPES.get(self.element_type, f'type {self.element_type}')}[{','.join(map(str, self.dimensions))}]"

    @property
    def element_count(self) -> int:
        """Number of elements of the array; 0 for a number that only a damaged program has."""
        count = math.prod(self.dimensions)
        return count if count < _MOST else 0

    @property
    def byte_size(self) -> int:
        """Size of the array in bytes; 0 where the type has none."""
        size = _SIZES.get(self.element_type, 0)
        return (
            -(-self.element_count * self._packed_bits // 8) if 0 < self._packed_bits < 8 * size else self.element_count * size
        )

    @property
    def alias_key(self) -> tuple[int, int]:
        """(element type, number of elements). Arrays with equal keys can take over each other's
        memory.
        """
        return self.element_type, self.element_count


@lru_cache(maxsize=4096)
def read_shapes(data: bytes) -> tuple[Shape, ...]:
    """Return the arrays of a `ShapeProto`, of which a program has few that differ."""
    return tuple(iter_shapes(data))


def iter_shapes(data: bytes, depth: int = 0) -> Iterator[Shape]:
    """Yield the arrays of a `ShapeProto`: one, or those of a tuple."""
    parts = list(iter_parts(data, _TUPLE)) if depth < _DEEPEST else []
    if not parts:
        yield Shape(data)
    for part in parts:
        yield from iter_shapes(part, depth + 1)

# SPDX-License-Identifier: Apache-2.0
"""Precision in which instructions compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outpace._lazy import compile_lazily

if TYPE_CHECKING:
    from outpace.timeline.hlo.graph import Instruction
    from outpace.timeline.hlo.shape import Shape

HALF, SINGLE, DOUBLE, UNKNOWN = 16, 32, 64, 0
_HALF_FLOATS = {10, 16, 19, 20, 23, 24, 25, 28, 29, 32, 33}  # F16, BF16 and the 8-bit and 4-bit floats
_DOUBLES = {12, 18}  # F64 and C128
_FLOATS = {*_HALF_FLOATS, 11, 15, *_DOUBLES}
_HEAVY = ("dot", "convolution", "custom-call", "ragged-dot", "scaled-dot", "cholesky", "triangular-solve", "fft")
_HIGHEST = 2  # value of PrecisionConfig
_ALL_DIGITS = compile_lazily(r'"operand_precision":\[[^\]]*"HIGHEST"')


def precision_bits(instruction: Instruction) -> int:
    """Return 16, 32 or 64: the bits of the inputs of a matrix product, convolution or custom call,
    alone or inside a fusion; for other instructions the bits of the result's type. 0 if unknown.

    A product of 16-bit numbers that is accumulated in 32 bits is a 16-bit product.
    """
    heavy = (_bits(part.operand_shapes) for part in instruction.parts if part.opcode in _HEAVY)
    return next(filter(None, heavy), 0) or _bits(instruction.shapes)


def _bits(shapes: Sequence[Shape]) -> int:
    floats = [s for s in shapes if s.element_type in _FLOATS]
    if not floats:
        return UNKNOWN
    if len(floats) == len(shapes):  # the largest array decides; of arrays of equal size, the shorter type
        largest = max(floats, key=lambda s: (s.element_count, s.element_type in _HALF_FLOATS))
        return HALF if largest.element_type in _HALF_FLOATS else DOUBLE if largest.element_type in _DOUBLES else SINGLE
    return HALF if any(s.element_type in _HALF_FLOATS for s in floats) else SINGLE


def is_highest_precision(instruction: Instruction) -> bool:
    """Whether the program requests full precision for a product (`Precision.HIGHEST`), which no
    tensor core provides.
    """
    return any(_HIGHEST in i.operand_precision or bool(_ALL_DIGITS.search(i.backend_config)) for i in instruction.parts)

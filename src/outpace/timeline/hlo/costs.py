# SPDX-License-Identifier: Apache-2.0
"""What one execution of an instruction costs: operations, and bytes read and written."""

from __future__ import annotations

from outpace.timeline.hlo.graph import Instruction
from outpace.timeline.hlo.products import product_flops

_MOST = 10**20  # maximum operations or bytes of one execution; more is damage
_PARTIAL = frozenset(  # opcodes that access only parts of their operands
    ("dynamic-slice", "slice", "gather", "pad", "dynamic-update-slice", "scatter", "while", "conditional", "call")
)


def flops(instruction: Instruction) -> float:
    """Return the floating-point operations of one execution, counting matrix products and
    convolutions; -1 where there are none.
    """
    return _plausible(sum(map(product_flops, instruction.parts)))


def bytes_accessed(instruction: Instruction) -> float:
    """Return the minimum bytes that one execution reads and writes: operands and result once. -1
    for ops that access only parts of their operands.
    """
    if instruction.opcode.endswith(("-start", "-done")) or any(i.opcode in _PARTIAL for i in instruction.parts):
        return -1.0
    # The results of a library call after the first are its working memory
    results = instruction.shapes[:1] if instruction.opcode == "custom-call" else instruction.shapes
    return _plausible(sum(shape.byte_size for shape in (*instruction.operand_shapes, *results)))


def _plausible(count: int) -> float:
    """Return a count as float; -1 for 0 and for counts that only a damaged program has."""
    return float(count) if 0 < count < _MOST else -1.0

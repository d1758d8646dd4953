# SPDX-License-Identifier: Apache-2.0
"""Products with one-hot matrices, which look up rows by multiplying with nearly nothing but 0."""

from __future__ import annotations

from outpace.timeline.hlo.graph import HloGraph, Instruction
from outpace.timeline.hlo.products import has_product

_FAR = 4  # maximum number of changes of layout or type between a one-hot matrix and its product
_LAYOUT_OPCODES = frozenset(
    ("parameter", "constant", "convert", "bitcast", "copy", "transpose", "reshape", "broadcast", "pad", "slice")
)
_COMPARISON_WITH_COUNT = frozenset(("iota", "compare"))


def find_one_hot_products(graph: HloGraph) -> set[Instruction]:
    """Return the products with a one-hot operand, and the instructions that create it."""
    one_hot = set(filter(_is_one_hot, graph.instructions))
    lookups: set[Instruction] = set()
    for product in filter(has_product, graph.instructions) if one_hot else ():
        for chain in map(_chain, product.operands):
            if chain[-1] in one_hot:
                lookups |= {product, *chain}
    return lookups


def _is_one_hot(instruction: Instruction) -> bool:
    """Whether the instruction creates one-hot rows from indices: it only compares them with a count
    for equality. A mask compares for less; an identity matrix has no indices as input.
    """
    opcodes = {i.opcode for i in instruction.parts} - {"fusion"}
    compares = opcodes >= {*_COMPARISON_WITH_COUNT, "parameter"} and opcodes <= _LAYOUT_OPCODES | _COMPARISON_WITH_COUNT
    return compares and any(i.comparison_direction == "EQ" for i in instruction.parts)


def _chain(instruction: Instruction) -> list[Instruction]:
    """Return an instruction and those before it, as far back as the array was only changed in its
    layout or type.
    """
    chain = [instruction]
    while len(chain) <= _FAR and (source := _same_array(chain[-1])) is not None:
        chain.append(source)
    return chain


def _same_array(instruction: Instruction) -> Instruction | None:
    """Return the single operand whose array the instruction passes on in another layout or type;
    None where the instruction does anything else.
    """
    if not {i.opcode for i in instruction.callees or [instruction]} <= _LAYOUT_OPCODES:
        return None
    arrays = [operand for operand in instruction.operands if operand.opcode != "constant"]
    return arrays[0] if len(arrays) == 1 else None

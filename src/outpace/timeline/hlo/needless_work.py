# SPDX-License-Identifier: Apache-2.0
"""Work that a program could do without: products with one-hot matrices, which look up rows by
multiplying with nearly nothing but 0, and a forward pass that is computed once more.
"""

from __future__ import annotations

from outpace.timeline.hlo.graph import HloGraph, Instruction
from outpace.timeline.hlo.products import has_product

_FAR = 4  # maximum number of changes of layout or type between a one-hot matrix and its product
_LAYOUT_OPCODES = frozenset(
    ("parameter", "constant", "convert", "bitcast", "copy", "transpose", "reshape", "broadcast", "pad", "slice")
)
REPEAT = "/rematted_computation/"
"""Part of JAX's names of ops of a forward pass that is computed once more."""
_FORWARD, _BACKWARD = "jvp(", "transpose("  # parts of JAX's names of ops
_PASSING = ("tuple", "get-tuple-element", "bitcast", "copy")
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


def find_repeats(graph: HloGraph) -> set[Instruction]:
    """Return the instructions that compute parts of the forward pass once more for the backward
    pass (`jax.checkpoint`).

    They are named so. Where XLA merged a repeat with the first computation, the one that is left
    may have the repeat's name; but then an op of the forward pass uses its result, directly or
    through repeats and what the compiler added, and it is none.
    """
    named = {i for i in graph.instructions if REPEAT in i.origin.framework_op}
    used_forward = {i for i in graph.instructions if _is_forward(i.origin.framework_op)}
    left = list(used_forward)
    while left:
        for operand in left.pop().operands:
            if operand not in used_forward and (operand in named or _passes_on(operand)):
                used_forward.add(operand)
                left.append(operand)
    return named - used_forward


def _is_forward(name: str) -> bool:
    """Whether an op belongs to the first forward pass, by its framework op."""
    return _FORWARD in name and _BACKWARD not in name and REPEAT not in name


def _passes_on(instruction: Instruction) -> bool:
    """Whether the compiler added an instruction, or it passes on what it takes."""
    return not instruction.origin.framework_op or instruction.opcode in _PASSING


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

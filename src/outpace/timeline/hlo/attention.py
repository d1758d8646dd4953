# SPDX-License-Identifier: Apache-2.0
"""Attentions, recognised by their structure: a softmax between two batches of matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from outpace._lazy import compile_lazily
from outpace.timeline.hlo.graph import WIDE, HloGraph, Instruction

_FAR = 4  # maximum distance of a product from the softmax
_CASTS = 4  # maximum number of consecutive casts that are followed
_LHS_BATCH = 3  # field of DotDimensionNumbers
_BATCHED = compile_lazily(r'"lhs_batch_dimensions":\[([\d",]*\d[\d",]*)\]')


def find_attentions(graph: HloGraph) -> set[Instruction]:
    """Return the instructions of attentions: batched products whose results a softmax uses, batched
    products that use the softmax's result, and all instructions between them.
    """
    attentions: set[Instruction] = set()
    is_product = cache(_is_batched_product)
    for softmax in filter(_is_softmax, graph.instructions):
        above = _find_paths(softmax, lambda i: i.operands, is_product)
        below = _find_paths(softmax, lambda i: i.users, is_product)
        if above and below:
            attentions |= {softmax, *above, *below}
    return attentions


def _find_paths(
    softmax: Instruction, neighbours: Callable[[Instruction], Sequence[Instruction]], is_product: Callable[[Instruction], bool]
) -> set[Instruction]:
    """Return the batched products near a softmax, and the instructions on the path to them.
    `neighbours` returns operands, or users.
    """
    layer, visited, paths = [softmax], {softmax}, set[Instruction]()
    before: dict[Instruction, set[Instruction]] = {}
    for _ in range(_FAR):
        for instruction in layer:
            for neighbour in neighbours(instruction)[:WIDE]:
                before.setdefault(neighbour, set()).add(instruction)
        further = dict.fromkeys(neighbour for instruction in layer for neighbour in neighbours(instruction)[:WIDE])
        layer = [i for i in further if i not in visited][:WIDE]
        visited.update(layer)
        paths.update(filter(is_product, layer))
        layer = [i for i in layer if i not in paths]
    left = [*paths]
    while left:
        previous = before[left.pop()] - paths - {softmax}
        paths |= previous
        left += previous
    return paths


def _is_softmax(instruction: Instruction) -> bool:
    """Whether the instruction computes exponentials of differences, as a softmax does of the
    distance to the largest number. A sigmoid computes exponentials of the numbers themselves.
    """
    return any(i.opcode == "exponential" and _takes_difference(i) for i in instruction.parts)


def _takes_difference(instruction: Instruction) -> bool:
    """Whether the operand is a difference, possibly cast to another type."""
    for _ in range(_CASTS + 1):
        if not instruction.operands:
            return False
        instruction = instruction.operands[0]
        if instruction.opcode != "convert":
            break
    return instruction.opcode == "subtract"


def _is_batched_product(instruction: Instruction) -> bool:
    """Whether the instruction multiplies a batch of matrices by another, as in a model for each
    example (and head). Where its users add up the whole batch, the answer is no: it is one product
    that the compiler has divided to use more of the device.
    """
    batch = set(range(max(map(_batch_dimensions, instruction.parts))))
    sizes = [shape.dimensions for shape in instruction.shapes[:1]]
    return bool(batch) and not any(
        i.opcode == "reduce" and batch <= set(i.dimensions) and sizes == [shape.dimensions for shape in i.operand_shapes[:1]]
        for user in instruction.users
        for i in user.parts
    )


def _batch_dimensions(instruction: Instruction) -> int:
    """Return how many leading dimensions of a product's result are batch dimensions."""
    config = _BATCHED.search(instruction.backend_config) if instruction.opcode == "custom-call" else None
    return len(config[1].split(",")) if config else len(instruction.dot_dimension_numbers.numbers(_LHS_BATCH))

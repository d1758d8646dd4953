# SPDX-License-Identifier: Apache-2.0
"""Work that a program could do without: products with one-hot matrices, which look up rows by
multiplying with nearly nothing but 0, a forward pass that is computed once more, and products that
a loop computes in each iteration though once would do.
"""

from __future__ import annotations

from collections.abc import Iterator

from outpace.timeline.hlo.graph import Computation, HloGraph, Instruction
from outpace.timeline.hlo.products import has_product

_MOST_TERMS = 20  # maximum number of additions that are followed from a sum
_FAR = 4  # maximum number of changes of layout or type between a one-hot matrix and its product
_LAYOUT_OPCODES = frozenset(
    ("parameter", "constant", "convert", "bitcast", "copy", "transpose", "reshape", "broadcast", "pad", "slice")
)
REPEAT = "/rematted_computation/"
"""Part of JAX's names of ops of a forward pass that is computed once more."""
_FORWARD, _BACKWARD = "jvp(", "transpose("  # parts of JAX's names of ops
_PASSING = ("tuple", "get-tuple-element", "bitcast", "copy")
_ADDING = frozenset(("parameter", "add", "bitcast", "copy", "reshape", "transpose", "convert"))
_UNREPEATED = (
    "parameter",
    "custom-call",
    "infeed",
    "recv",
    "rng",
    "rng-bit-generator",
)  # may differ each time, whatever they take
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


def find_hoistable_products(graph: HloGraph) -> set[Instruction]:
    """Return the products in the bodies of loops that could be computed once, outside of them.

    All operands of such a product stay the same in all iterations; or one does, and the results are
    only added up, as in the gradient of an array that each iteration multiplies anew: then the
    other operand can be added up, and multiplied once.
    """
    bodies = (i.called[0] for i in graph.instructions if i.opcode == "while" and i.called)
    return {product for body in bodies for product in _hoistable_in(body)}


def _hoistable_in(body: Computation) -> Iterator[Instruction]:
    """Yield the products of one loop's body that could be computed once."""
    parameters = [i for i in body.instructions if i.opcode == "parameter"]
    if len(parameters) != 1 or body.root is None or body.root.opcode != "tuple":
        return
    elements = {i: i.tuple_index for i in parameters[0].users if i.opcode == "get-tuple-element"}
    results = list(map(_same_element, body.root.operands))
    same = {i for i, number in elements.items() if number < len(results) and results[number] is i}
    for i in body.instructions:
        if i.opcode == "constant" or (i.operands and i.opcode not in _UNREPEATED and same.issuperset(i.operands)):
            same.add(i)
    yield from (i for i in same if has_product(i))
    for number, result in enumerate(results):
        terms = list(_iter_terms(result))
        uses = [user for element, at in elements.items() if at == number for user in element.users]
        if len(uses) == 1 and any(elements.get(term) == number for term in terms):  # no iteration reads the sum so far
            yield from (t for t in terms if has_product(t) and len(t.users) == 1 and not same.isdisjoint(t.operands))


def _same_element(instruction: Instruction) -> Instruction:
    """Return what an instruction passes on, of a loop's result."""
    while instruction.opcode in ("copy", "bitcast") and instruction.operands:
        instruction = instruction.operands[0]
    return instruction


def _iter_terms(total: Instruction) -> Iterator[Instruction]:
    """Yield what a sum adds up; the instruction itself where it is no sum."""
    left, seen = [total], set[Instruction]()
    while left:
        instruction = left.pop()
        adds = (
            {i.opcode for i in instruction.callees} <= _ADDING
            if instruction.opcode == "fusion"
            else instruction.opcode in _ADDING
        )
        if adds and instruction.operands and instruction not in seen and len(seen) < _MOST_TERMS:
            seen.add(instruction)
            left += instruction.operands
        else:
            yield instruction


def _is_forward(name: str) -> bool:
    """Whether an op belongs to the first forward pass, by its framework op."""
    return _FORWARD in name and _BACKWARD not in name and REPEAT not in name


def _passes_on(instruction: Instruction) -> bool:
    """Whether the compiler added an instruction, or it passes on what it takes."""
    return not instruction.origin.framework_op or instruction.opcode in _PASSING


def _is_one_hot(instruction: Instruction) -> bool:
    """Whether the instruction creates one-hot rows from indices: it compares them with a count for
    equality, and multiplies what comes of that at most, which leaves the zeros. A mask compares for
    less; an identity matrix compares two counts.
    """
    opcodes = {i.opcode for i in instruction.parts} - {"fusion"}
    if not opcodes <= _LAYOUT_OPCODES | _COMPARISON_WITH_COUNT | {"multiply"}:
        return False
    compared = (i for i in instruction.parts if i.comparison_direction == "EQ")
    return any({_origin(operand) for operand in i.operands} == {"iota", "parameter"} for i in compared)


def _origin(instruction: Instruction) -> str:
    """Return the opcode of what an array is, but for changes of its layout or type."""
    for _ in range(_FAR):
        if instruction.opcode not in _LAYOUT_OPCODES or not instruction.operands:
            break
        instruction = instruction.operands[0]
    return instruction.opcode


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

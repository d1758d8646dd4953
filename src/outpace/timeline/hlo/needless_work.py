# SPDX-License-Identifier: Apache-2.0
"""Work that a program could do without: products with one-hot matrices, which look up rows by
multiplying with nearly nothing but 0, a forward pass that is computed once more, products that a
loop computes in each iteration though once would do, and several products for which one would do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from outpace.timeline.hlo.graph import Computation, HloGraph, Instruction
from outpace.timeline.hlo.op_dimensions import dot_dimensions
from outpace.timeline.hlo.products import has_product

_MOST_TERMS = 20  # maximum number of additions that are followed from a sum
_FAR = 4  # maximum number of changes of layout or type between what makes an array and a product of it
_LAYOUT_OPCODES = frozenset(
    ("parameter", "constant", "convert", "bitcast", "copy", "transpose", "reshape", "broadcast", "pad", "slice")
)
REPEAT = "/rematted_computation/"
"""Part of JAX's names of ops of a forward pass that is computed once more."""
_FORWARD, _BACKWARD = "jvp(", "transpose("  # parts of JAX's names of ops
_PASSING = ("tuple", "get-tuple-element", "bitcast", "copy")
_LAYOUT_CHANGES = ("bitcast", "copy", "reshape", "convert")
_ADDING = frozenset(("parameter", "add", *_LAYOUT_CHANGES))
_PRODUCT_OPCODES = ("dot", "convolution")
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
    other operand can be added up, and multiplied once. No iteration, and no condition, may read the
    sum.
    """
    loops = (i for i in graph.instructions if i.opcode == "while" and len(i.called) > 1)
    return {product for loop in loops for product in _hoistable_in(loop.called[0], loop.called[1])}


def find_joinable_products(graph: HloGraph) -> set[Instruction]:
    """Return the products, alone or in fusions, that take the same array with the same dimensions
    summed, where none needs the result of another.
    """
    takers: dict[tuple[Instruction, tuple[int, ...]], list[Instruction]] = {}
    fusions = [i for i in graph.instructions if i.opcode == "fusion"]
    parts = [(fusion, part) for fusion in fusions for part in fusion.callees]
    inside = {part for _, part in parts}
    for product, part in (*parts, *((i, i) for i in graph.instructions if i not in inside)):
        numbers = dot_dimensions(part)
        for operand, contracted in zip(part.operands, numbers[:2], strict=False) if numbers is not None else ():
            array = _same_element(operand)
            if part is product:
                takers.setdefault((array, tuple(contracted)), []).append(product)
            elif array.opcode == "parameter" and array.parameter_number < len(product.operands):
                outer = _same_element(product.operands[array.parameter_number])
                takers.setdefault((outer, tuple(contracted)), []).append(product)
    positions = {i: position for position, i in enumerate(graph.instructions)}
    groups = [list(dict.fromkeys(products)) for products in takers.values()]
    return {p for group in groups if 1 < len(group) <= _MOST_TERMS and not _any_depends(group, positions) for p in group}


def _any_depends(instructions: Sequence[Instruction], positions: Mapping[Instruction, int]) -> bool:
    """Whether one of some instructions of a computation needs the result of another.

    positions: place of each instruction among all of them; operands stand before their users.
    """
    wanted = set(instructions)
    first = min(positions[i] for i in instructions)
    left, seen = list(instructions), set[Instruction]()
    while left:
        for operand in left.pop().operands:
            if operand in wanted:
                return True
            if operand not in seen and positions[operand] > first:
                seen.add(operand)
                left.append(operand)
    return False


def _hoistable_in(body: Computation, condition: Computation) -> Iterator[Instruction]:
    """Yield the products of one loop's body that could be computed once."""
    parameters = [i for i in body.instructions if i.opcode == "parameter"]
    if len(parameters) != 1 or body.root is None or body.root.opcode != "tuple":
        return
    elements = {i: i.tuple_index for i in parameters[0].users if i.opcode == "get-tuple-element"}
    results = body.root.operands
    same = {i for i, number in elements.items() if number < len(results) and _same_element(results[number]) is i}
    for i in body.instructions:
        if i.opcode == "constant" or (i.operands and i.opcode not in _UNREPEATED and same.issuperset(i.operands)):
            same.add(i)
    yield from (i for i in same if has_product(i))
    tested = {i.tuple_index for i in condition.instructions if i.opcode == "get-tuple-element"}
    for number, result in enumerate(results):
        terms = list(_iter_terms(result)) if number not in tested else []
        uses = [user for element, at in elements.items() if at == number for user in element.users]
        if len(uses) == 1 and any(elements.get(term) == number for term in terms):
            yield from (t for t in terms if len(t.users) == 1 and not same.isdisjoint(_factors(t)))


def _factors(product: Instruction) -> list[Instruction]:
    """Return the operands of a product that are its factors as they are; none where it does more
    than multiply.
    """
    if product.opcode in _PRODUCT_OPCODES:
        return list(product.operands)
    inner = [i for i in product.callees if i.opcode in _PRODUCT_OPCODES] if product.opcode == "fusion" else []
    if len(inner) != 1 or not {i.opcode for i in product.callees} <= {inner[0].opcode, "parameter", *_LAYOUT_CHANGES}:
        return []
    numbers = [source.parameter_number for source in map(_same_element, inner[0].operands) if source.opcode == "parameter"]
    return [product.operands[number] for number in numbers if number < len(product.operands)]


def _same_element(instruction: Instruction) -> Instruction:
    """Return what an instruction passes on, but for its layout."""
    for _ in range(_FAR):
        if instruction.opcode not in _LAYOUT_CHANGES or not instruction.operands:
            break
        instruction = instruction.operands[0]
    return instruction


def _iter_terms(total: Instruction) -> Iterator[Instruction]:
    """Yield what a sum adds up that nothing else reads, nor a part of it; nothing where something
    does, and the instruction itself where it is no sum.
    """
    left, seen, terms = [total], set[Instruction](), []
    while left:
        instruction = left.pop()
        adds = (
            {i.opcode for i in instruction.callees} <= _ADDING
            if instruction.opcode == "fusion"
            else instruction.opcode in _ADDING
        )
        if not (adds and instruction.operands):
            terms.append(instruction)
            continue
        if len(instruction.users) != 1 or instruction in seen or len(seen) >= _MOST_TERMS:
            return
        seen.add(instruction)
        left += instruction.operands
    yield from terms


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

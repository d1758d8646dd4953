# SPDX-License-Identifier: Apache-2.0
"""Memory traffic of one execution of an instruction: bytes that it must read and write at least.

Of arrays that are accessed in part (slices, gathers, updates in place), the part counts. What a
fusion keeps inside is not in memory. The rules are those of XLA's own count (`HloCostAnalysis` of
openxla/xla); but rows that a fusion gathers from an array count as those rows, where XLA counts the
whole array.
"""

from __future__ import annotations

from collections.abc import Callable

from outpace.timeline.hlo.graph import Instruction
from outpace.timeline.hlo.shape import Shape

_FREE = frozenset(
    (
        *("parameter", "constant", "get-tuple-element", "bitcast", "after-all", "add-dependency", "domain"),
        *(
            "partition-id",
            "replica-id",
            "opt-barrier",
            "while",
            "call",
            "conditional",
            "async-start",
            "async-update",
            "async-done",
        ),
    )
)
"""Opcodes that move nothing themselves."""
_PARTIAL = ("slice", "dynamic-slice", "gather")  # opcodes that read parts of their first operand
_IMMEDIATE = 8  # maximum elements of a constant that a kernel holds in its code
_DEEPEST = 8  # maximum depth of fusions in fusions, and of tuples; deeper ones are damage
_POINTER = 8  # bytes of an entry of a tuple


def traffic_bytes(instruction: Instruction) -> float:
    """Return the bytes that one execution of an instruction reads and writes, without those of
    computations that it calls, but for fusions.
    """
    if instruction.opcode in _FREE:
        return 0.0
    if instruction.opcode == "tuple":
        return float(_POINTER * len(instruction.operands))
    if instruction.opcode == "fusion":
        return float(_fusion_bytes(instruction))
    result = byte_size(instruction.shapes)
    rule = _RULES.get(instruction.opcode)
    if rule is None:
        return float(result + byte_size(instruction.operand_shapes))
    return float(rule(result, [byte_size(operand.shapes[:1]) for operand in instruction.operands] + [0, 0, 0]))


def _scatter_bytes(result: int, operands: list[int]) -> int:
    """Return the traffic of a scatter: each update is read, and a place of the array read and
    written; its operands are arrays, indices and updates.
    """
    arrays = (len(operands) - 3) // 2
    return 3 * sum(operands[arrays + 1 :]) + operands[arrays]


_RULES: dict[str, Callable[[int, list[int]], float]] = {
    "slice": lambda result, _: 2 * result,
    "dynamic-slice": lambda result, operands: 2 * result + operands[1],
    "dynamic-update-slice": lambda _, operands: 2 * operands[1] + operands[2],
    "gather": lambda result, operands: 2 * result + operands[1],
    "scatter": _scatter_bytes,
    "triangular-solve": lambda result, operands: result + operands[0] / 2 + operands[1],
    "cholesky": lambda _, operands: operands[0],
    "infeed": lambda result, _: result,
    "outfeed": lambda _, operands: sum(operands),
}
"""Traffic by opcode, from the sizes of result and operands in bytes; other opcodes read and write
all of both.
"""


def byte_size(shapes: list[Shape]) -> int:
    """Return the size of some arrays, bytes."""
    return sum(shape.byte_size for shape in shapes)


def _fusion_bytes(fusion: Instruction) -> int:
    """Return the bytes that a fusion reads and writes."""
    if not fusion.called or (root := fusion.called[0].root) is None:
        return byte_size(fusion.operand_shapes) + byte_size(fusion.shapes)
    inside = fusion.called[0]
    roots = root.operands if root.opcode == "tuple" else [root]
    written = sum(map(_written_bytes, roots))
    constants = sum(
        byte_size(i.shapes)
        for i in inside.instructions
        if i.opcode == "constant" and i.shapes and i.shapes[0].element_count > _IMMEDIATE
    )
    return written + constants + sum(map(_read_bytes, inside.parameters))


def _written_bytes(result: Instruction) -> int:
    """Return the bytes of a fusion's result that it writes; of an update in place, the update."""
    updates = result.opcode == "dynamic-update-slice" and len(result.operands) > 1
    return byte_size(result.operands[1].shapes if updates else result.shapes)


def parts_read(array: Instruction, user: Instruction, depth: int = 0) -> set[tuple[object, int]]:
    """Return the distinct parts of an array that one of its users reads, each as (what tells it
    from others, number of elements): slices, gathered rows, or the whole array.
    """
    whole = array.shapes[0].element_count if array.shapes else 0
    if user.opcode in _PARTIAL and user.operands[0] is array and user.shapes:
        return {(user.ranges or user, user.shapes[0].element_count)}
    if user.opcode != "fusion" or not user.called or depth > _DEEPEST:
        return {("all", whole)}
    inner = [p for p, operand in zip(user.called[0].parameters, user.operands, strict=False) if operand is array]
    return {part for p in inner for further in p.users for part in parts_read(p, further, depth + 1)}


def _read_bytes(parameter: Instruction, depth: int = 0) -> int:
    """Return the bytes of a fusion's parameter that it reads.

    Instructions that read slices of the array read them one by one; all others share one reading of
    the whole, and so do gathers, which read no more than the array however often they take a row.
    """
    parts, gathered, reads_all = 0, 0, depth > _DEEPEST
    for user in () if reads_all else parameter.users:
        is_first = bool(user.operands) and user.operands[0] is parameter
        if user.opcode == "gather" and is_first:
            gathered += byte_size(user.shapes)
        elif user.opcode in _PARTIAL and is_first:
            parts += byte_size(user.shapes)
        elif user.opcode == "dynamic-update-slice" and is_first:
            continue  # the array is updated in place
        elif user.opcode == "get-tuple-element":
            parts += _read_bytes(user, depth + 1)
        elif user.opcode == "fusion" and user.called:
            body = user.called[0]
            inner = [p for p, operand in zip(body.parameters, user.operands, strict=False) if operand is parameter]
            parts += sum(_read_bytes(p, depth + 1) for p in inner)
            reads_all |= body.root in inner
        elif user.opcode in ("broadcast", "reshape"):
            parts += byte_size(parameter.shapes)
        else:
            reads_all = True
    whole = byte_size(parameter.shapes)
    return parts + (whole if reads_all else min(whole, gathered))

# SPDX-License-Identifier: Apache-2.0
"""How often the body of a loop runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.timeline.hlo.graph import Computation, Instruction

_KNOWN = compile_lazily(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d{1,18})')
_MOST = 10**9  # maximum number of iterations; more is damage
_DEEPEST = 12  # maximum number of instructions that are followed to a value
_LOOPS = 3  # maximum number of loops that are looked at for the trips of one
_FORWARDING = ("copy", "convert", "bitcast", "reshape", "broadcast", "bitcast-convert")
_Arguments = Mapping[Instruction, Instruction]  # what stands outside for each parameter of a computation that is called


@dataclass(frozen=True)
class _Linear:
    """The number `factor` times a variable plus `offset`.

    index: number of the loop's variable; -1 for none.
    """

    index: int
    factor: int
    offset: int


def trip_count(loop: Instruction, depth: int = 0) -> int | None:
    """Return how often the body of a `while` runs per execution: as the compiler states it, else by
    its counter; None where neither is known. `depth`: number of loops that were looked at on the
    way to this one.
    """
    if known := _KNOWN.search(loop.backend_config):
        count = int(known[1])
        return count if count <= _MOST else None
    return _count_by_condition(loop, depth) if depth <= _LOOPS else None


def _count_by_condition(loop: Instruction, depth: int) -> int | None:
    """Return the trips of a loop that counts: `i < limit` with `i` a number that begins as a
    constant and grows by a constant in each trip. Of several such tests the first that fails ends
    the loop; where one of them is another, the trips are not known.
    """
    if len(loop.called) < 2 or not loop.operands:
        return None
    counts = [_count_by_test(loop, *test, depth) for test in _tests(*_follow(loop.called[1].root, {}))]
    return min((count for count in counts if count is not None), default=None) if None not in counts else None


def _tests(condition: Instruction | None, arguments: _Arguments, depth: int = 0) -> Iterator[tuple[Instruction, _Arguments]]:
    """Yield the conditions that must all be true for a loop to go on."""
    if condition is not None and condition.opcode == "and" and depth <= _LOOPS:
        for operand in condition.operands:
            yield from _tests(*_follow(operand, arguments), depth + 1)
    elif condition is not None:
        yield condition, arguments


def _count_by_test(loop: Instruction, test: Instruction, arguments: _Arguments, depth: int) -> int | None:
    """Return for how many trips a comparison of a counter with a constant is true; None for another
    condition.
    """
    if test.opcode != "compare" or len(test.operands) < 2:
        return None
    left, right = (_linear(operand, arguments, loop, depth) for operand in test.operands[:2])
    difference = _combine("subtract", left, right)
    if difference is None or difference.index < 0:
        return None
    start, step = _initial_value(loop, difference.index, depth), _step(loop.called[0], difference.index)
    if start is None or step is None:
        return None
    return _count(difference.factor * start + difference.offset, difference.factor * step, test.comparison_direction)


def _count(start: int, step: int, direction: str) -> int | None:
    """Return how often a number that begins as `start` and grows by `step` is less than 0 ("LT"),
    or is to 0 as another direction says, before it no longer is.
    """
    if direction in ("GT", "GE"):
        start, step, direction = -start, -step, direction.replace("G", "L")
    if direction == "NE" and start * step <= 0 and step and start % step == 0:
        start, step, direction = -abs(start), abs(step), "LT"
    if step <= 0 or direction not in ("LT", "LE"):
        return None
    count = max(0, -((start - (direction == "LE")) // step))
    return count if count <= _MOST else None


def _follow(instruction: Instruction | None, arguments: _Arguments) -> tuple[Instruction | None, _Arguments]:
    """Return (the instruction that computes a value, what stands for the parameters around it),
    without those that only pass the value on, and looking into fusions and calls.
    """
    for _ in range(_DEEPEST):
        if instruction is None:
            break
        if instruction.opcode == "parameter" and instruction in arguments:
            instruction = arguments[instruction]
        elif instruction.opcode in _FORWARDING and instruction.operands:
            instruction = instruction.operands[0]
        elif instruction.opcode in ("fusion", "call") and instruction.called:
            called = instruction.called[0]
            arguments = {**arguments, **dict(zip(called.parameters, instruction.operands, strict=False))}
            instruction = called.root
        else:
            break
    return instruction, arguments


def _linear(
    instruction: Instruction, arguments: _Arguments, loop: Instruction | None = None, depth: int = 0, level: int = 0
) -> _Linear | None:
    """Return the value of an instruction as a linear function of one of a loop's variables; None
    where it is none. Inside `loop`, a variable that stays what it was before is a constant.
    """
    found, arguments = _follow(instruction, arguments)
    if found is None or max(depth, level) > _LOOPS:
        return None
    if (literal := found.literal) is not None:
        return _Linear(-1, 0, literal)
    if found.opcode in ("add", "subtract", "multiply") and len(found.operands) >= 2:
        sides = (_linear(operand, arguments, loop, depth, level + 1) for operand in found.operands[:2])
        return _combine(found.opcode, *sides)
    if found.opcode != "get-tuple-element" or not found.operands:
        return None
    index, source = found.tuple_index, found.operands[0]
    if source.opcode == "while":
        return _constant(_final(source, index, depth + 1))
    if source.opcode != "parameter":
        return None
    stays = loop is not None and _step(loop.called[0], index) == 0
    return _constant(_initial_value(loop, index, depth + 1)) if loop is not None and stays else _Linear(index, 1, 0)


def _constant(value: int | None) -> _Linear | None:
    return _Linear(-1, 0, value) if value is not None else None


def _combine(opcode: str, left: _Linear | None, right: _Linear | None) -> _Linear | None:
    """Return the sum, difference or product of two linear functions; None where it is not linear in
    one variable.
    """
    if left is None or right is None or (left.index >= 0 and right.index >= 0 and left.index != right.index):
        return None
    index = max(left.index, right.index)
    if opcode == "multiply":
        if left.factor and right.factor:
            return None
        return _Linear(index, left.factor * right.offset + right.factor * left.offset, left.offset * right.offset)
    sign = -1 if opcode == "subtract" else 1
    return _Linear(index, left.factor + sign * right.factor, left.offset + sign * right.offset)


def _final(loop: Instruction, index: int, depth: int) -> int | None:
    """Return what a loop's variable is after the loop."""
    start, step = _initial_value(loop, index, depth), _step(loop.called[0], index) if loop.called else None
    trips = 0 if step == 0 else trip_count(loop, depth)
    return start + step * trips if start is not None and step is not None and trips is not None else None


def _initial_value(loop: Instruction, index: int, depth: int) -> int | None:
    """Return what a loop's variable is before the first trip; None where that is no constant."""
    before = loop.operands[0] if loop.operands else None
    if before is None or before.opcode != "tuple" or index >= len(before.operands):
        return None
    value = _linear(before.operands[index], {}, depth=depth)
    return value.offset if value is not None and value.index < 0 else None


def _step(body: Computation, index: int) -> int | None:
    """Return by what a loop's variable grows in each trip, 0 where it stays the same; None where
    that is no constant.
    """
    results = body.root.operands if body.root is not None and body.root.opcode == "tuple" else ()
    after = _linear(results[index], {}) if index < len(results) else None
    return after.offset if after is not None and (after.index, after.factor) == (index, 1) else None

"""Programs of XLA as they stand in a profile (`HloProto`), field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outpace.model.wire import blob, integer, varint

S32, F16, F32, TUPLE, BF16 = 4, 10, 11, 13, 16


def numbers(field: int, values: Sequence[int]) -> bytes:
    """A packed repeated field."""
    return blob(field, b"".join(map(varint, values)))


def shape(kind: int, *dimensions: int, space: int = 0, order: tuple[int, ...] = ()) -> bytes:
    """A `ShapeProto`; `space` and `order` are its layout's."""
    layout = blob(5, blob(1, bytes(order)) + integer(8, space)) if space or order else b""
    return integer(2, kind) + numbers(3, dimensions) + layout


def instruction(
    name: str,
    opcode: str,
    identity: int,
    result: bytes = b"",
    operands: Sequence[int] = (),
    calls: Sequence[int] = (),
    more: bytes = b"",
) -> bytes:
    """An `HloInstructionProto`; `calls`: computations."""
    given = numbers(36, operands) if operands else b""
    called = numbers(38, calls) if calls else b""
    return blob(1, name) + blob(2, opcode) + blob(3, result or shape(F32, 8)) + integer(35, identity) + given + called + more


def op(name: str, opcode: str, identity: int, result: bytes, *operands: int, more: bytes = b"") -> bytes:
    """An instruction, as a field of its computation."""
    return blob(2, instruction(name, opcode, identity, result, operands, more=more))


def module(*computations: Sequence[bytes], schedules: Sequence[Sequence[int]] = ()) -> bytes:
    """An `HloProto` whose computations are numbered from 1; `schedules`: numbers of instructions, by computation."""
    parts = [
        blob(3, b"".join(blob(2, one) for one in instructions) + integer(5, number))
        for number, instructions in enumerate(computations, 1)
    ]
    entries = [
        blob(1, integer(1, number) + blob(2, numbers(1, sequence))) for number, sequence in enumerate(schedules, 1) if sequence
    ]
    return blob(1, b"".join(parts) + (blob(7, b"".join(entries)) if entries else b""))


def program(takes: Mapping[str, bytes], *returns: bytes, says: str = "") -> bytes:
    """A program with arguments of these shapes, the last one first in its text, and results; `says`: what sets it apart from others."""
    arguments = [
        op(f"p.{n}", "parameter", n, given, more=blob(7, blob(2, name)) + (integer(9, n) if n else b""))
        for n, (name, given) in enumerate(takes.items())
    ]
    body = (*reversed(arguments), op("c", "constant", 50, shape(F32), more=blob(8, says)))
    result = returns[0] if len(returns) == 1 else integer(2, TUPLE) + b"".join(blob(4, each) for each in returns)
    return blob(1, blob(3, b"".join(body) + integer(5, 1)) + blob(4, blob(2, result)) + integer(6, 1))

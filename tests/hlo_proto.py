"""Programs of XLA as they stand in a profile (`HloProto`), field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outpace.model.protobuf_wire import encode_bytes, encode_integer, encode_varint

S32, F16, F32, TUPLE, BF16 = 4, 10, 11, 13, 16


def numbers(field: int, values: Sequence[int]) -> bytes:
    """A packed repeated field."""
    return encode_bytes(field, b"".join(map(encode_varint, values)))


def shape(kind: int, *dimensions: int, space: int = 0, order: tuple[int, ...] = ()) -> bytes:
    """A `ShapeProto`; `space` and `order` are its layout's."""
    layout = encode_bytes(5, encode_bytes(1, bytes(order)) + encode_integer(8, space)) if space or order else b""
    return encode_integer(2, kind) + numbers(3, dimensions) + layout


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
    return (
        encode_bytes(1, name)
        + encode_bytes(2, opcode)
        + encode_bytes(3, result or shape(F32, 8))
        + encode_integer(35, identity)
        + given
        + called
        + more
    )


def op(name: str, opcode: str, identity: int, result: bytes, *operands: int, more: bytes = b"") -> bytes:
    """An instruction, as a field of its computation."""
    return encode_bytes(2, instruction(name, opcode, identity, result, operands, more=more))


def module(*computations: Sequence[bytes], schedules: Sequence[Sequence[int]] = ()) -> bytes:
    """An `HloProto` whose computations are numbered from 1; `schedules`: numbers of instructions,
    by computation.
    """
    parts = [
        encode_bytes(3, b"".join(encode_bytes(2, one) for one in instructions) + encode_integer(5, number))
        for number, instructions in enumerate(computations, 1)
    ]
    entries = [
        encode_bytes(1, encode_integer(1, number) + encode_bytes(2, numbers(1, sequence)))
        for number, sequence in enumerate(schedules, 1)
        if sequence
    ]
    return encode_bytes(1, b"".join(parts) + (encode_bytes(7, b"".join(entries)) if entries else b""))


def program(takes: Mapping[str, bytes], *returns: bytes, says: str = "") -> bytes:
    """A program with arguments of these shapes, the last one first in its text, and results;
    `says`: what sets it apart from others.
    """
    arguments = [
        op(f"p.{n}", "parameter", n, given, more=encode_bytes(7, encode_bytes(2, name)) + (encode_integer(9, n) if n else b""))
        for n, (name, given) in enumerate(takes.items())
    ]
    body = (*reversed(arguments), op("c", "constant", 50, shape(F32), more=encode_bytes(8, says)))
    result = returns[0] if len(returns) == 1 else encode_integer(2, TUPLE) + b"".join(encode_bytes(4, each) for each in returns)
    return encode_bytes(
        1,
        encode_bytes(3, b"".join(body) + encode_integer(5, 1))
        + encode_bytes(4, encode_bytes(2, result))
        + encode_integer(6, 1),
    )

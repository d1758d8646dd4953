"""Programs as a profile carries them (`HloProto`), written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from outpace.model.wire import blob, integer, varint

F16, F32, BF16 = 10, 11, 16


def numbers(field: int, values: Sequence[int]) -> bytes:
    """A packed repeated field."""
    return blob(field, b"".join(map(varint, values)))


def shape(kind: int, *dimensions: int) -> bytes:
    """A `ShapeProto`."""
    return integer(2, kind) + numbers(3, dimensions)


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

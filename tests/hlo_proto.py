"""Programs of XLA as they stand in a profile (`HloProto`), field by field."""

from __future__ import annotations

from collections.abc import Mapping

F32, S32, TUPLE = 11, 4, 13


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def text(number: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def shape(kind: int, *dimensions: int, space: int = 0, order: tuple[int, ...] = ()) -> bytes:
    layout = text(5, text(1, bytes(order)) + number(8, space)) if space or order else b""
    return number(2, kind) + text(3, b"".join(varint(d) for d in dimensions)) + layout


def op(name: str, opcode: str, identity: int, result: bytes, *operands: int, more: bytes = b"") -> bytes:
    given = text(36, b"".join(varint(o) for o in operands)) if operands else b""
    return text(2, text(1, name) + text(2, opcode) + text(3, result) + number(35, identity) + given + more)


def program(takes: Mapping[str, bytes], *returns: bytes, says: str = "") -> bytes:
    """A program with arguments of these shapes, the last one first in its text, and results; `says`: what sets it apart from others."""
    arguments = [
        op(f"p.{n}", "parameter", n, given, more=text(7, text(2, name)) + (number(9, n) if n else b""))
        for n, (name, given) in enumerate(takes.items())
    ]
    body = (*reversed(arguments), op("c", "constant", 50, shape(F32), more=text(8, says)))
    result = returns[0] if len(returns) == 1 else number(2, TUPLE) + b"".join(text(4, each) for each in returns)
    return text(1, text(3, b"".join(body) + number(5, 1)) + text(4, text(2, result)) + number(6, 1))

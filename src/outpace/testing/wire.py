"""Protobuf's wire format: varints, tags, and the few kinds of field that an XSpace uses."""

from __future__ import annotations

import struct

_VARINT, _FIXED64, _BYTES = 0, 1, 2


def varint(value: int) -> bytes:
    """Base-128 varint of a 64-bit integer; negative ones as their two's complement, as int64 fields are written.

    Raises ValueError for a number that neither int64 nor uint64 can hold.
    """
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{value} does not fit into 64 bits")
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field: int, value: int) -> bytes:
    """An int64 or uint64 field."""
    return varint(field << 3 | _VARINT) + varint(value)


def double(field: int, value: float) -> bytes:
    """A double field."""
    return varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def blob(field: int, value: bytes | str) -> bytes:
    """A bytes, string or message field. Bytes given as a name are written as they are, valid UTF-8 or not."""
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | _BYTES) + varint(len(raw)) + raw

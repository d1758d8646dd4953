# SPDX-License-Identifier: Apache-2.0
"""Protobuf's wire format: reading and writing of fields without generated code or a protobuf
library. Standard library only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeVar

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_CONTINUES = 0x80  # bit of a varint's byte that another byte follows
_BITS = 70  # bits of the longest varint, which has ten bytes of seven

Data = TypeVar("Data", bytes, memoryview)


def encode_varint(value: int) -> bytes:
    """Return the base-128 varint of a 64-bit integer. A negative one is written as its two's
    complement, as in int64 fields.

    Raises ValueError for a number that neither int64 nor uint64 can represent.
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


def encode_integer(field: int, value: int) -> bytes:
    """Return the encoding of an int64 or uint64 field."""
    return encode_varint(field << 3 | _VARINT) + encode_varint(value)


def encode_double(field: int, value: float) -> bytes:
    """Return the encoding of a double field."""
    return encode_varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def encode_bytes(field: int, value: bytes | str) -> bytes:
    """Return the encoding of a bytes, string or message field. Bytes are written unchanged, also
    where they are a name and no valid UTF-8.
    """
    raw = value.encode() if isinstance(value, str) else value
    return encode_varint(field << 3 | _BYTES) + encode_varint(len(raw)) + raw


def iter_fields(data: Data) -> Iterator[tuple[int, int | Data]]:
    """Yield (field number, value) for the fields of a message, in order. The value is an int for a
    varint, and a part of `data` for all other types. Raises ValueError for damaged bytes.
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = (data[at], at + 1) if data[at] < _CONTINUES else read_varint(data, at)
        kind = tag & 7
        if kind in (_VARINT, _BYTES):
            # Nearly all numbers have one byte; a call for each would take most of the time.
            value, at = (data[at], at + 1) if at < end and data[at] < _CONTINUES else read_varint(data, at)
            if kind == _VARINT:
                yield tag >> 3, value
                continue
            size = value
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {at} is none that protobuf uses")
        if at + size > end:
            raise ValueError(f"a field of {size} bytes at byte {at} is cut off")
        yield tag >> 3, data[at : at + size]
        at += size


def read_varint(data: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Return (the varint that begins at byte `offset`, the offset after it). Raises ValueError
    where the varint does not end.
    """
    value = shift = 0
    while offset < len(data) and shift < _BITS:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7
    raise ValueError(f"a number at byte {offset} does not end")

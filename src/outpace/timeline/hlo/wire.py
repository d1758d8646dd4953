# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages that may be damaged: of each, the fields before the damage are read."""

from __future__ import annotations

import contextlib
from collections.abc import ItemsView, Iterator

from outpace.model import protobuf_wire

FieldValue = bytes | int
_CONTINUES = 0x80  # bit of a varint's byte that another byte follows


class Message:
    """Fields of a message by number; of a repeated field, the last value."""

    __slots__ = ("_values",)

    def __init__(self, data: bytes) -> None:
        self._values: dict[int, FieldValue] = {}
        with contextlib.suppress(ValueError):
            self._values.update(protobuf_wire.iter_fields(data))

    def integer(self, field: int, missing: int = -1) -> int:
        """Return the value of a number field; `missing` where there is none."""
        value = self._values.get(field)
        return value if isinstance(value, int) else missing

    def content(self, field: int) -> bytes:
        """Return the value of a bytes field; empty where it is missing."""
        value = self._values.get(field)
        return value if isinstance(value, bytes) else b""

    def text(self, field: int) -> str:
        """Return the value of a text field; empty where it is missing."""
        return self.content(field).decode("utf-8", "replace")

    def message(self, field: int) -> Message:
        """Return the message in a field; one without fields where it is missing."""
        return Message(self.content(field))

    def numbers(self, field: int) -> list[int]:
        """Return the numbers of a packed repeated field, up to the first damaged one."""
        data = self.content(field)
        if not data or max(data) < _CONTINUES:  # fast path for numbers of one byte, which nearly all are
            return list(data)
        values, at = [], 0
        with contextlib.suppress(ValueError):
            while at < len(data):
                value, at = protobuf_wire.read_varint(data, at)
                values.append(value)
        return values

    def items(self) -> ItemsView[int, FieldValue]:
        """Return all fields with their values."""
        return self._values.items()

    def has(self, *fields: int) -> bool:
        """Whether the message has one of these fields."""
        return not self._values.keys().isdisjoint(fields)


def to_signed(value: int) -> int:
    """Return a varint of a signed field (int32, int64) as the number that it stands for."""
    return value - 2**64 if value >= 2**63 else value


def iter_parts(data: bytes, field_number: int) -> Iterator[bytes]:
    """Yield all values of one repeated field that has bytes."""
    return (value for field, value in _iter_intact_fields(data) if field == field_number and isinstance(value, bytes))


def _iter_intact_fields(data: bytes) -> Iterator[tuple[int, FieldValue]]:
    with contextlib.suppress(ValueError):
        yield from protobuf_wire.iter_fields(data)

# SPDX-License-Identifier: Apache-2.0
"""Transfers and collectives that asynchronous instructions wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outpace.timeline.hlo.graph import Instruction


HOST_TO_DEVICE, DEVICE_TO_HOST = "host_to_device", "device_to_host"
DEVICE_TO_DEVICE, COLLECTIVE = "device_to_device", "collective"
_HOST_SPACE = 5  # memory space of arrays in the memory of the host
_COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective", "ragged-all-to-all")


def transfer_kind(instruction: Instruction) -> str:
    """Return the transfer for whose end an asynchronous op waits: the direction of a copy, or
    `COLLECTIVE`; "" for every other op.
    """
    if not instruction.opcode.endswith("-done"):
        return ""
    starts = instruction.operands[:1]
    wrapped = [i.opcode for caller in (instruction, *starts) for i in caller.callees]
    if any(opcode.startswith(_COLLECTIVES) for opcode in (instruction.opcode, *wrapped)):
        return COLLECTIVE
    if instruction.opcode.startswith(("send", "recv")):
        direction = DEVICE_TO_HOST if instruction.opcode.startswith("send") else HOST_TO_DEVICE
        return direction if instruction.is_host_transfer else DEVICE_TO_DEVICE
    return transfer_direction([shape.memory_space for start in starts for shape in start.shapes])


def transfer_direction(spaces: Sequence[int]) -> str:
    """Return the direction of a copy by the memory spaces of (destination, source, ...)."""
    to_host, from_host = (space == _HOST_SPACE for space in (*spaces, 0, 0)[:2])
    if to_host == from_host:
        return DEVICE_TO_DEVICE
    return DEVICE_TO_HOST if to_host else HOST_TO_DEVICE

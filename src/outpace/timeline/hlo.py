"""XLA programs that a profile carries: for every HLO op its opcode, the framework op it came from, and the source line.

TensorFlow and JAX put each program as an `HloProto` on the plane `/host:metadata`. Field numbers are those of `xla/service/hlo.proto` and
`xla/xla_data.proto` (OpMetadata); of the message only the few fields named here are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from outpace._dataclass import dataclass
from outpace.trace import Trace

_MODULE = 1  # HloProto
_NAME, _COMPUTATIONS = 1, 3  # HloModuleProto
_INSTRUCTIONS, _COMPUTATION_ID = 2, 5  # HloComputationProto
_OP_NAME, _OPCODE, _METADATA, _CALLED = 1, 2, 7, 38  # HloInstructionProto
_FRAMEWORK_OP, _FILE, _LINE = 2, 3, 4  # OpMetadata
_BITS = 64


@dataclass(frozen=True)
class HloOp:
    """One instruction: `opcode` (`fusion`, `dot`), `framework_op` (`jit(step)/dot_general`), `source` (`train.py:12`); empty where unknown."""

    opcode: str
    framework_op: str
    source: str


def programs(trace: Trace) -> dict[int, dict[str, HloOp]]:
    """Ops by name of every program, by program id. A program that is damaged has the ops that could be read."""
    found: dict[int, dict[str, HloOp]] = {}
    for row, stats in trace.name_stats.items():
        proto = stats.get("Hlo Proto")
        if isinstance(proto, bytes):
            found[program_id(trace.names[row])] = dict(_ops(proto))
    return found


def program_id(name: str) -> int:
    """`jit_step(8)` is program 8; -1 for a name without an id."""
    digits = name.rpartition("(")[2].rstrip(")")
    return int(digits) if digits.isdigit() else -1


def _ops(proto: bytes) -> Iterator[tuple[str, HloOp]]:
    for module in _messages(proto, _MODULE):
        computations = {
            _number(dict(_fields(c)).get(_COMPUTATION_ID)): list(_instructions(c)) for c in _messages(module, _COMPUTATIONS)
        }
        for instructions in computations.values():
            for name, op, called in instructions:
                if not op.framework_op:  # a fusion that says nothing of itself: what it fused does
                    inside = (o for number in called for _, o, _ in reversed(computations.get(number, ())) if o.framework_op)
                    op = replace(next(inside, op), opcode=op.opcode)
                yield name, op


def _instructions(computation: bytes) -> Iterator[tuple[str, HloOp, list[int]]]:
    """(name, op, ids of the computations that it calls) of each instruction."""
    for instruction in _messages(computation, _INSTRUCTIONS):
        found: dict[int, bytes | int] = dict(_fields(instruction))
        metadata: dict[int, bytes | int] = dict(_fields(_bytes(found.get(_METADATA))))
        file, line = _text(metadata.get(_FILE)), _number(metadata.get(_LINE))
        source = f"{file}:{line}" if file and line > 0 else file
        op = HloOp(_text(found.get(_OPCODE)), _text(metadata.get(_FRAMEWORK_OP)), source)
        yield _text(found.get(_OP_NAME)), op, _packed(_bytes(found.get(_CALLED)))


def _packed(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


def _number(value: bytes | int | None) -> int:
    return value if isinstance(value, int) else -1


def _messages(data: bytes, number: int) -> Iterator[bytes]:
    return (value for field, value in _fields(data) if field == number and isinstance(value, bytes))


def _bytes(value: bytes | int | None) -> bytes:
    return value if isinstance(value, bytes) else b""


def _text(value: bytes | int | None) -> str:
    return _bytes(value).decode("utf-8", "replace")


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """(field number, value) of a message: numbers for varints and fixed widths, bytes for the rest; stops where it is damaged."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind, size = tag & 7, 0
        if kind == 0:
            value, at = _varint(data, at)
            if at <= len(data):
                yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            return
        if at + size > len(data):
            return
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, position after it); a position beyond the end when the data ends inside."""
    value = 0
    for shift in range(0, _BITS + 6, 7):
        if at >= len(data):
            break
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    return 0, len(data) + 1

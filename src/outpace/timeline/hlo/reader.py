# SPDX-License-Identifier: Apache-2.0
"""Reading of an `HloProto` into a graph. Field numbers are those of `xla/service/hlo.proto`."""

from __future__ import annotations

from outpace.timeline.hlo.graph import SILENT_OPCODES, Computation, HloGraph, Instruction
from outpace.timeline.hlo.shape import iter_shapes
from outpace.timeline.hlo.wire import Message, iter_parts

_MODULE = 1  # HloProto
_NAME, _COMPUTATIONS, _SHAPE, _ENTRY, _SCHEDULE, _ALIASES, _ASSIGNED = 1, 3, 4, 6, 7, 8, 15  # HloModuleProto
_COMPUTATION_NAME, _INSTRUCTIONS, _COMPUTATION_ID, _ROOT = 1, 2, 5, 6  # HloComputationProto
_RESULT = 2  # ProgramShapeProto
_ALIAS, _PARAMETER = 1, 2  # HloInputOutputAliasProto, and the number of a parameter in one of its entries
_SEQUENCES, _SEQUENCE, _NUMBERS = 1, 2, 1  # HloScheduleProto: a map of computations to sequences of instructions
_REPLICAS, _PARTITIONS = 1, 2  # DeviceAssignmentProto


def read_module(proto: bytes) -> bytes:
    """Return the `HloModuleProto`, which the functions below take; empty where it is damaged."""
    return next(iter_parts(proto, _MODULE), b"")


def read_name(module: bytes) -> str:
    """Return the name of a program."""
    return Message(module).text(_NAME)


def read_computations(module: bytes) -> tuple[bytes, ...]:
    """Return all computations as bytes; equal for a program that was compiled twice."""
    return tuple(iter_parts(module, _COMPUTATIONS))


def read_graph(module: bytes) -> HloGraph:
    """Return the graph of a program."""
    computations = dict(_read_computation(data) for data in iter_parts(module, _COMPUTATIONS))
    by_id = {i.id: i for computation in computations.values() for i in computation.instructions}
    _connect(computations, by_id)
    fields = Message(module)
    entry = computations.get(fields.integer(_ENTRY), Computation(()))
    aliases = (Message(alias) for message in iter_parts(module, _ALIASES) for alias in iter_parts(message, _ALIAS))
    return HloGraph(
        computations,
        by_id,
        entry.instructions,
        list(iter_shapes(fields.message(_SHAPE).content(_RESULT))),
        frozenset(alias.integer(_PARAMETER, 0) for alias in aliases),
    )


def _read_computation(data: bytes) -> tuple[int, Computation]:
    """Return (id, computation) of an `HloComputationProto`."""
    fields = Message(data)
    return fields.integer(_COMPUTATION_ID), Computation(
        [Instruction(i) for i in iter_parts(data, _INSTRUCTIONS)], fields.integer(_ROOT), fields.text(_COMPUTATION_NAME)
    )


def _connect(computations: dict[int, Computation], by_id: dict[int, Instruction]) -> None:
    """Set the neighbours of all instructions, and the callers of all computations."""
    for instruction in (i for computation in computations.values() for i in computation.instructions):
        instruction.operands = [by_id[n] for n in instruction.operand_ids if n in by_id]
        instruction.called = [computations[n] for n in instruction.called_ids if n in computations]
        for operand in instruction.operands:
            operand.users.append(instruction)
        for computation in instruction.called:
            computation.callers.append(instruction)


def read_schedules(module: bytes, graph: HloGraph) -> list[list[str]]:
    """Return the names of the instructions that execute something, in order of execution, one list
    per scheduled computation.
    """
    entries = (Message(entry) for schedule in iter_parts(module, _SCHEDULE) for entry in iter_parts(schedule, _SEQUENCES))
    sequences = ([graph.by_id[n] for n in entry.message(_SEQUENCE).numbers(_NUMBERS) if n in graph.by_id] for entry in entries)
    schedules = ([i.name for i in sequence if i.opcode not in SILENT_OPCODES] for sequence in sequences)
    return [names for names in schedules if names]


def read_device_count(module: bytes) -> int:
    """Return the number of devices of all hosts that run the program; 0 where it is unknown."""
    assigned = Message(next(iter_parts(module, _ASSIGNED), b""))
    return assigned.integer(_REPLICAS, 0) * assigned.integer(_PARTITIONS, 0)

# SPDX-License-Identifier: Apache-2.0
"""Arguments that a program copies although their memory could be reused (`donate_argnums`)."""

from __future__ import annotations

from collections import Counter

from outpace.timeline.hlo.graph import SILENT_OPCODES, HloGraph, Instruction

_COPIES = frozenset(("copy", "copy-start", "copy-done"))
_IN_PLACE = frozenset(("dynamic-update-slice", "scatter", "while"))  # opcodes that write into one of their operands
_FAR = 4  # maximum distance of an argument from its copy, and of a copy from its update


def find_undonated_arguments(graph: HloGraph) -> dict[Instruction, tuple[str, Instruction]]:
    """Return the copies of arguments that could have been donated, each with the argument's name
    and the instruction that updates the copy in place.

    Not included are copies of donated arguments, whose memory an output takes over
    (`input_output_alias`), copies into another layout, and copies whose old values are used
    together with the new ones. An argument can be donated if an output of the same size exists that
    is not taken by donated arguments.
    """
    free = Counter(shape.alias_key for shape in graph.results)
    free.subtract(i.shapes[0].alias_key for i in graph.parameters if i.parameter_number in graph.donated)
    undonated = {}
    for copy in graph.entry:
        argument = _argument(copy)
        if argument is None or argument.parameter_number in graph.donated or not _only_copies(copy):
            continue
        same = [vars(shape) for shape in copy.shapes[:1]] == [vars(shape) for shape in argument.shapes]
        updater = _updater(copy) if same else None
        if updater is not None and free[argument.shapes[0].alias_key] > 0 and not _outlives(argument, updater):
            undonated[copy] = (argument.framework_op or argument.name, updater)
    return undonated


def _argument(instruction: Instruction) -> Instruction | None:
    """Return the parameter that is the first operand without any change, or None."""
    for _ in range(_FAR):
        if not instruction.operands:
            return None
        instruction = instruction.operands[0]
        if instruction.opcode == "parameter":
            return instruction
        if instruction.opcode not in SILENT_OPCODES and instruction.opcode != "copy-start":
            return None
    return None


def _only_copies(instruction: Instruction) -> bool:
    inside = {i.opcode for i in instruction.callees} if instruction.opcode == "fusion" else set()
    return instruction.opcode in _COPIES or ("copy" in inside and inside <= {*SILENT_OPCODES, "copy"})


def _updater(copy: Instruction) -> Instruction | None:
    """Return the instruction that updates a copy in place, or None."""
    layer, array = [copy], copy.shapes[0].alias_key
    for _ in range(_FAR):
        users = list(dict.fromkeys(user for instruction in layer for user in instruction.users))
        for user in users:
            if array in user.alias_keys and any(i.opcode in _IN_PLACE for i in user.parts):
                return user
        layer = [user for user in users if user.opcode in SILENT_OPCODES or user.opcode == "copy-done"]
    return None


def _outlives(argument: Instruction, updater: Instruction) -> bool:
    """Whether an instruction near the update uses the values from before the update."""
    return not set(argument.users).isdisjoint(updater.iter_further_users())

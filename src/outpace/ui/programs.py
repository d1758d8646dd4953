# SPDX-License-Identifier: Apache-2.0
"""What the page of a compiled program shows: its text, and the neighbourhood of an instruction with
times. These functions run in the workbench's analysis process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from outpace.ui.worker import load_profile

if TYPE_CHECKING:
    from outpace.metrics.facts.hlo_instructions import InstructionStats
    from outpace.timeline.hlo.graph import Instruction
    from outpace.timeline.hlo.module import HloModule

MOST_RADIUS = 3
_MOST_PARTS = 40  # instructions of a fusion that are told
_MOST_SHAPE = 34  # characters of a shape on an edge


def list_program_text(folder: str, state: str, program: str) -> list[str]:
    """Return the lines of a program's text. Raises UsageError where the run has no such program."""
    name, every = _find(folder, state, program, "")
    return list(every[name].iter_text())


def describe_neighbours(folder: str, state: str, program: str, op: str, radius: int) -> dict[str, Any]:
    """Return the instructions near one of a program, by default its longest one, and the edges
    between them, as JSON: `nodes` with distance, text, source, time per step (ps; missing where it
    did not run) and the share of it above the roof (missing where that is unknown), `edges` (from,
    to, shape); `alike`: how many programs of that name have the instruction. Raises UsageError
    where the run has no such program or instruction.
    """
    from outpace.metrics.facts.hlo_instructions import instruction_stats

    name, every = _find(folder, state, program, op)
    module = every[name]
    stats = {id(each.op): each for ran in instruction_stats(load_profile(folder, state).run).values() for each in ran}
    centre = op or _longest(module, stats)
    near = module.find_neighbours(centre, radius)
    nodes = {each.name: _node(module, each, far, stats) for each, far in near.nodes}
    edges = [
        {"from": operand.name, "to": each.name, "shape": _shape(operand)}
        for each, _ in near.nodes
        for operand in dict.fromkeys(each.operands)
        if operand.name in nodes
    ]
    return {
        "program": name,
        "programs": sorted(every, key=lambda each: -len(every[each].graph.instructions)),
        "op": centre,
        "radius": radius,
        "is_whole": near.is_whole,
        "alike": sum(each.rpartition("(")[0] == name.rpartition("(")[0] and centre in every[each] for each in every),
        "nodes": list(nodes.values()),
        "edges": edges,
    }


def _find(folder: str, state: str, program: str, op: str) -> tuple[str, dict[str, HloModule]]:
    """Return the name of the program that an address means, and all programs by name: of several
    with that name, the one with the instruction, and with most of them.
    """
    from outpace.timeline.hlo.choice import choose_program

    programs = load_profile(folder, state).programs()
    return choose_program(programs, program or None, op or None), programs


def _longest(module: HloModule, stats: Mapping[int, InstructionStats]) -> str:
    """Return the instruction that took most time, else the last one."""
    times = {name: stats[id(module[name])].time_ps for name in module if id(module[name]) in stats}
    return max(times, key=times.__getitem__) if times else next(reversed(list(module)))


def _node(module: HloModule, instruction: Instruction, far: int, stats: Mapping[int, InstructionStats]) -> dict[str, Any]:
    from outpace.metrics.facts.roofs import NO_ROOF_BOUNDS

    op = module[instruction.name]
    found = module.describe(instruction.name)
    node: dict[str, Any] = {
        "op": instruction.name,
        "opcode": instruction.opcode,
        "distance": far,
        "text": found.text.partition(", metadata=")[0] if found is not None else "",
        "source": op.source,
        "framework_op": op.framework_op,
        "parts": list(_parts(module, instruction)),
    }
    if (ran := stats.get(id(op))) is None or math.isnan(ran.share):  # without steady steps there is no share
        return node
    node |= {"time_ps": ran.time_ps, "share": ran.share, "bound": ran.roof.bound.value}
    if ran.roof.bound.value not in NO_ROOF_BOUNDS:
        node["above_share"] = ran.above_ps / ran.time_ps if ran.time_ps else 0.0
    return node


def _parts(module: HloModule, instruction: Instruction) -> Iterator[str]:
    """Yield what a fusion computes, an instruction each."""
    if instruction.opcode != "fusion":
        return
    parts = [part for part in instruction.callees if part.opcode not in ("parameter", "constant")]
    for part in parts[:_MOST_PARTS]:
        yield f"{part.name}: {part.opcode} {_shape(part)}"
    if len(parts) > _MOST_PARTS:
        yield f"and {len(parts) - _MOST_PARTS} more"


def _shape(instruction: Instruction) -> str:
    """Return the shape of a result without its layout: `f32[8,512]`."""
    text = ", ".join(map(str, instruction.shapes)) if len(instruction.shapes) < 3 else f"{len(instruction.shapes)} arrays"
    return text if len(text) <= _MOST_SHAPE else f"{text[: _MOST_SHAPE - 1]}…"

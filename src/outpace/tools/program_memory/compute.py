# SPDX-License-Identifier: Apache-2.0
"""The tables about the memory of programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

from outpace._dataclass import dataclass
from outpace.model import Category, Row, Table
from outpace.timeline import Run
from outpace.timeline.hlo.memory import Buffer, BufferKind, MemoryPlan
from outpace.timeline.hlo.memory_changes import HEADROOM, find_batch, find_memory_changes
from outpace.timeline.hlo.module import HloModule
from outpace.timeline.hlo.ops import NO_OP
from outpace.tools.program_memory.exhaustion import LiveArray
from outpace.tools.program_memory.schema import BUFFERS, CHANGES, CURVE, PROGRAMS
from outpace.trace import dialect

_MOST_ARRAYS = 200  # of a program's peak; the rest is one row
_MOST_EVENTS = 200  # of a curve; of more, the highest of each stretch
CURVE_COLORS = {"held_bytes": Category.INPUT.value, "temporary_bytes": Category.KERNEL_LAUNCH.value}
"""Series of the picture of a curve, with their colours."""
_LARGE = 0.01  # minimum peak of a program whose arrays are listed, as a share of the largest


@dataclass(frozen=True)
class ProgramMemory:
    """A program of a host with its memory."""

    host: str
    name: str
    module: HloModule
    plan: MemoryPlan


def find_programs(run: Run) -> list[ProgramMemory]:
    """Return the programs of a run whose memory is known, the largest peak first; of one that was
    compiled twice, one.
    """
    found: dict[tuple[str, tuple[bytes, ...]], ProgramMemory] = {}
    for timeline in run.hosts:
        for number, name, module in timeline.hlo_modules.items():
            if (plan := module.memory_plan) is not None:
                found.setdefault(
                    (timeline.host, module.computations), ProgramMemory(timeline.host, f"{name}({number})", module, plan)
                )
    return sorted(found.values(), key=lambda each: -each.plan.peak_bytes)


def device_capacities(run: Run) -> dict[str, int]:
    """Return the memory of the smallest device of each host, bytes; hosts whose profile does not
    say it are left out.
    """
    found: dict[str, int] = {}
    for timeline in run.hosts:
        sizes = [size for plane in timeline.device_planes if isinstance(size := plane.stats.get(dialect.MEMORY_SIZE), int)]
        if sizes:
            found[timeline.host] = min(sizes)
    return found


def build_programs(programs: list[ProgramMemory], capacities: Mapping[str, int]) -> Table:
    """Return `PROGRAMS`. capacities: memory of a device of each host, bytes."""
    return PROGRAMS.build(_program_row(program, capacities.get(program.host, 0)) for program in programs)


def _program_row(program: ProgramMemory, capacity: int) -> Row:
    batch = find_batch(program.plan)
    sizes, plan = program.plan.sizes, program.plan
    peak = plan.curve[plan.peak][0] if plan.curve else ""
    return PROGRAMS.row(
        plan,
        host=program.host,
        program=program.name,
        argument_bytes=sizes[BufferKind.ARGUMENT] + sizes[BufferKind.DONATED],
        donated_bytes=sizes[BufferKind.DONATED],
        result_bytes=sizes[BufferKind.RESULT],
        constant_bytes=sizes[BufferKind.CONSTANT],
        temporary_bytes=sizes[BufferKind.TEMPORARY],
        batch=batch.size if batch else math.nan,
        largest_batch=batch.largest(plan.peak_bytes, HEADROOM * capacity) if batch and capacity else math.nan,
        peak_op=peak,
        peak_source=program.module[peak].source if peak else "",
    )


def find_large(programs: list[ProgramMemory]) -> list[ProgramMemory]:
    """Return the programs whose arrays are listed."""
    return [each for each in programs if each.plan.peak_bytes >= _LARGE * programs[0].plan.peak_bytes > 0]


def build_buffers(programs: list[ProgramMemory]) -> Table:
    """Return `BUFFERS`: the arrays at the peaks of some programs."""
    return BUFFERS.build(row for program in programs for row in _buffer_rows(program))


def _buffer_rows(program: ProgramMemory) -> Iterator[Row]:
    live = program.plan.peak_buffers
    make = partial(BUFFERS.row, None, host=program.host, program=program.name)
    for rank, buffer in enumerate(live[:_MOST_ARRAYS], start=1):
        op = program.module[buffer.instruction.name] if buffer.instruction is not None else None
        yield make(
            rank=rank,
            op=_name_of(buffer),
            kind=buffer.kind.value,
            shape=str(buffer.shape or ""),
            size_bytes=buffer.size,
            padding_bytes=max(0, buffer.size - buffer.shape.byte_size) if buffer.shape is not None else 0,
            share=buffer.size / program.plan.peak_bytes,
            framework_op=op.framework_op if op is not None and _is_computed(buffer) else "",
            source=op.source if op is not None else "",
            from_event=buffer.begin,
            to_event=buffer.end,
        )
    if rest := live[_MOST_ARRAYS:]:
        size = sum(each.size for each in rest)
        yield make(
            rank=_MOST_ARRAYS + 1,
            op=f"({len(rest):,} smaller ones)",
            kind="",
            shape="",
            size_bytes=size,
            padding_bytes=0,
            share=size / program.plan.peak_bytes,
            framework_op="",
            source="",
            from_event=0,
            to_event=len(program.plan.curve),
        )


def _is_computed(buffer: Buffer) -> bool:
    return buffer.kind not in (BufferKind.ARGUMENT, BufferKind.DONATED)


def _name_of(buffer: Buffer) -> str:
    """Return the name of an array: for an argument that of the caller, where the program has it; of
    several results of one instruction with its number, as XLA writes it.
    """
    instruction = buffer.instruction
    if instruction is None:
        return ""
    if not _is_computed(buffer):
        return instruction.framework_op or instruction.name
    return f"{instruction.name}{{{buffer.index}}}" if len(instruction.shapes) > 1 else instruction.name


def build_changes(programs: list[ProgramMemory]) -> Table:
    """Return `CHANGES` of some programs."""
    return CHANGES.build(row for program in programs for row in _change_rows(program))


def _change_rows(program: ProgramMemory) -> Iterator[Row]:
    for change in find_memory_changes(program.plan, program.module):
        saved = program.plan.peak_bytes - change.peak_bytes
        yield CHANGES.row(change, host=program.host, program=program.name, change=change.kind.value, saved_bytes=saved)


def live_arrays(program: ProgramMemory) -> list[LiveArray]:
    """Return the arrays at a program's peak, the largest first."""
    return [_live_array(program, buffer) for buffer in program.plan.peak_buffers]


def _live_array(program: ProgramMemory, buffer: Buffer) -> LiveArray:
    op = program.module[buffer.instruction.name] if buffer.instruction is not None else NO_OP
    return LiveArray(
        buffer.size,
        shape=str(buffer.shape or ""),
        kind=buffer.kind,
        unpadded=buffer.shape.byte_size if buffer.shape is not None else buffer.size,
        op=op.framework_op if _is_computed(buffer) else "",
        source=op.source if _is_computed(buffer) else "",
        label=_name_of(buffer),
    )


def build_curve(programs: list[ProgramMemory]) -> Table:
    """Return `CURVE` of some programs."""
    return CURVE.build(row for program in programs for row in _curve_rows(program))


def _curve_rows(program: ProgramMemory) -> Iterator[Row]:
    curve, held = program.plan.curve, program.plan.total_bytes - program.plan.sizes[BufferKind.TEMPORARY]
    stretch = -(-len(curve) // _MOST_EVENTS) or 1
    for first in range(0, len(curve), stretch):
        event = max(range(first, min(first + stretch, len(curve))), key=lambda at: curve[at][1])
        op, live = curve[event]
        yield CURVE.row(
            None,
            host=program.host,
            program=program.name,
            event=event,
            op=op,
            held_bytes=held,
            temporary_bytes=live - held,
            live_bytes=live,
        )

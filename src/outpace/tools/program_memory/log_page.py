# SPDX-License-Identifier: Apache-2.0
"""The page about a log in which memory ran out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from outpace.model import Chart, ChartKind, Page, Table, TableView, Unit, humanize, select_nonempty
from outpace.model.text import format_largest_part
from outpace.model.units import format_count
from outpace.timeline.hlo.memory import BufferKind
from outpace.timeline.hlo.module import HloModule
from outpace.tools.program_memory import TOOL
from outpace.tools.program_memory.compute import CURVE_COLORS, ProgramMemory, build_curve, live_arrays
from outpace.tools.program_memory.exhaustion import Exhaustion, LiveArray, read_exhaustion
from outpace.tools.program_memory.findings import iter_findings
from outpace.tools.program_memory.schema import LINES, LIVE, NEEDS

_PLURALS = {
    BufferKind.ARGUMENT: "arguments",
    BufferKind.DONATED: "donated arguments",
    BufferKind.CONSTANT: "constants",
    BufferKind.RESULT: "results",
    BufferKind.TEMPORARY: "temporaries",
}

_PADDED = 0.01  # of the arrays' memory; less is rounding
_REMARK = (
    "By the message alone: XLA writes the largest 15 to 20 arrays of the moment with most in use, an allocator its chunks by size. "
    "A profile of a smaller step has the whole curve: outpace profile, then this page."
)


def of_log(text: str, program: bytes = b"") -> Page | None:
    """Return the page about a log; None where no memory ran out in it. program: the program that
    ran (`HloProto`), where it is known.
    """
    found = read_exhaustion(text)
    if found is None:
        return None
    known = _failed_program(program, found.asked)
    if known is not None:
        found = _of_program(known, found)
    needs = NEEDS.build(NEEDS.row(None, what=what, size_bytes=size) for what, size in _needs(found))
    lines = LINES.build(
        LINES.row(None, source=source, size_bytes=size, arrays=count) for source, (size, count) in _by_line(found).items()
    )
    live = LIVE.build(map(_live_row, range(1, len(found.arrays) + 1), found.arrays))
    curve = build_curve([known] if known is not None else [])
    columns = ("rank", "kind", "shape", "size_bytes", *(["padding_bytes"] * _is_padded(live)), "source", "op")
    sections = select_nonempty(
        Chart(curve.title, ChartKind.STACK_SERIES, curve, "event", tuple(CURVE_COLORS), CURVE_COLORS),
        Chart(needs.title, ChartKind.BARS, needs, "what", ("size_bytes",)),
        TableView(lines, limit=8),
        TableView(live, columns, limit=12, remark=_REMARK if known is None else ""),
    )
    return TOOL.page(_headline(found), tuple(sections), tuple(iter_findings(found)))


def _is_padded(live: Table) -> bool:
    return bool(live["padding_bytes"].sum() > _PADDED * live["size_bytes"].sum())


def _failed_program(proto: bytes, asked: int) -> ProgramMemory | None:
    """Return the program that asked for some bytes; None where a program is unknown, or needs less
    than that.
    """
    module = HloModule(proto)
    plan = module.memory_plan if proto else None
    return ProgramMemory("", module.name, module, plan) if plan is not None and plan.total_bytes >= asked else None


def _of_program(program: ProgramMemory, message: Exhaustion) -> Exhaustion:
    """Return what ran out by the program's own plan, which is whole; a message has the largest
    arrays alone.
    """
    plan = program.plan
    parts = {kind: plan.sizes[kind] for kind in BufferKind if plan.sizes[kind]}
    return replace(message, used=plan.total_bytes, parts=parts, arrays=live_arrays(program), is_program=True, what="")


def _needs(found: Exhaustion) -> Iterator[tuple[str, int]]:
    """Yield what was needed and what there is, with bytes."""
    if found.limit:
        yield "there is", found.limit
    if found.used:
        yield ("needed" if found.is_program else "in use"), found.used
    for kind, size in found.parts.items():
        yield _PLURALS[kind], size
    if found.fragments:
        yield "idle between arrays", found.fragments
    if found.asked:
        yield "asked for at last", found.asked


def _by_line(found: Exhaustion) -> dict[str, tuple[int, int]]:
    """Return (bytes, number of arrays) by source line, the largest first."""
    sizes, counts = Counter[str](), Counter[str]()
    for each in found.arrays:
        if each.source:
            sizes[each.source] += each.size
            counts[each.source] += each.count
    return {source: (size, counts[source]) for source, size in sizes.most_common()}


def _live_row(rank: int, array: LiveArray) -> dict[str, object]:
    return LIVE.row(
        None,
        rank=rank,
        kind=array.kind.value if array.kind is not None else "",
        shape=array.shape,
        count=array.count,
        size_bytes=array.size,
        padding_bytes=max(0, array.size - array.unpadded) if array.unpadded else 0,
        op=array.op,
        label=array.label,
        source=array.source,
    )


def _headline(found: Exhaustion) -> str:
    """Return the sentence at the top: what was needed, what there is, and what most of it is."""
    needed, limit = humanize(found.needed, Unit.BYTES), humanize(found.limit, Unit.BYTES)
    if found.is_program:
        what = f"Memory ran out: a program needs {needed}" if found.used else "Memory ran out: a program does not fit"
        what += f" of {limit}" if found.limit else ""
    else:
        what = f"Memory ran out: {humanize(found.asked, Unit.BYTES)} were asked for" + (
            f" ({found.what})" if found.what else ""
        )
        what += f", with {humanize(found.used, Unit.BYTES)} of {limit} in use" if found.used and found.limit else ""
    largest = max(found.parts, key=lambda kind: found.parts[kind], default=None)
    if largest is not None and found.used:
        what += f"; {humanize(found.parts[largest], Unit.BYTES)} are {_PLURALS[largest]}"
    if found.is_program and found.arrays:
        array = found.arrays[0]
        place = f" of {os.path.basename(array.source)}" if array.source else ""
        what += f"; the largest array is {array.shape} ({humanize(array.size, Unit.BYTES)}){place}"
    elif found.arrays and (chunk := found.arrays[0]).count:
        size, chunks = humanize(chunk.size / chunk.count, Unit.BYTES), format_count(chunk.count, "chunk")
        what += f"; {format_largest_part(f'in {chunks} of {size}', chunk.size, found.used)}"
    return f"{what}."

# SPDX-License-Identifier: Apache-2.0
"""The page about the memory of programs."""

from __future__ import annotations

from outpace.model import Chart, ChartKind, Page, Section, Table, TableView, Unavailable, Unit, humanize, select_nonempty
from outpace.timeline import Run
from outpace.timeline.hlo.memory import BufferKind
from outpace.tools.program_memory import TOOL
from outpace.tools.program_memory.compute import (
    CURVE_COLORS,
    ProgramMemory,
    build_buffers,
    build_changes,
    build_curve,
    build_programs,
    device_capacities,
    find_large,
    find_programs,
)
from outpace.tools.program_memory.findings import iter_capacity_findings

_NONE = Unavailable(
    "the programs of this profile do not say how their memory is assigned",
    "Programs of a GPU, a CPU and a TPU do in captures of JAX 0.4 and TensorFlow 2.10 or newer: capture again.",
)
_REMARK = (
    "By the compiler's own plan: arguments, results and constants are held all the time, temporaries share their memory. What a "
    "framework keeps beside a program (its pool, other programs' results) is not in it: the memory profile has what allocators recorded."
)
_CHANGES = (
    "The curve over the same schedule without what a change takes away; the compiler may find another one. Recomputed arrays stand at "
    "their making and at their last use alone: jax.checkpoint, keras.RematScope or tf.recompute_grad around their lines."
)


def analyse(run: Run) -> Page:
    """Return the page of a run."""
    programs = find_programs(run)
    if not programs:
        return TOOL.page(unavailable=_NONE)
    large = find_large(programs)
    capacities = device_capacities(run)
    curve, buffers, changes = build_curve(large), build_buffers(large), build_changes(large)
    sections: tuple[Section, ...] = (
        *_pictures(curve),
        TableView(
            buffers,
            ("op", "kind", "shape", "size_bytes", "share", "source"),
            limit=12,
            pick=("program",),
            by=("kind", "source"),
        ),
        *select_nonempty(
            TableView(
                changes,
                ("program", "change", "source", "arrays", "saved_bytes", "peak_bytes", "flops"),
                limit=8,
                pick=("program",),
                remark=_CHANGES,
            )
        ),
        TableView(
            build_programs(programs, capacities),
            (
                "program",
                "peak_bytes",
                "total_bytes",
                "argument_bytes",
                "donated_bytes",
                "result_bytes",
                "temporary_bytes",
                "batch",
                "largest_batch",
                "peak_op",
            ),
            limit=8,
            remark=_REMARK,
        ),
    )
    return TOOL.page(_headline(programs[0]), sections, iter_capacity_findings(programs, capacities, changes))


def _pictures(curve: Table) -> tuple[Section, ...]:
    """Return the picture of the curve; nothing where no program has one."""
    if not len(curve):
        return ()
    return (Chart(curve.title, ChartKind.STACK_SERIES, curve, "event", tuple(CURVE_COLORS), CURVE_COLORS, select="program"),)


def _headline(largest: ProgramMemory) -> str:
    """Return the sentence at the top of the page: what the largest program needs, and for what."""
    plan = largest.plan
    peak, op = humanize(plan.peak_bytes, Unit.BYTES), plan.curve[plan.peak][0] if plan.curve else ""
    arguments = plan.sizes[BufferKind.ARGUMENT] + plan.sizes[BufferKind.DONATED]
    temporaries = plan.peak_bytes - (plan.total_bytes - plan.sizes[BufferKind.TEMPORARY])
    donated = plan.sizes[BufferKind.DONATED]
    parts = [
        f"{humanize(temporaries, Unit.BYTES)} are temporaries",
        f"{humanize(arguments, Unit.BYTES)} arguments"
        + (f" ({humanize(donated, Unit.BYTES)} of them donated)" if donated else ""),
    ]
    if plan.sizes[BufferKind.RESULT]:
        parts.append(f"{humanize(plan.sizes[BufferKind.RESULT], Unit.BYTES)} results")
    return f"{largest.name} needs {peak} at its peak{f', in {op}' if op else ''}: {', '.join(parts)}."

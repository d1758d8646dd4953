# SPDX-License-Identifier: Apache-2.0
"""The page of the memory profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from outpace.metrics.facts.workload import find_workload
from outpace.model import (
    AreaColumns,
    Category,
    Chart,
    ChartKind,
    Figure,
    Figures,
    Page,
    Paragraph,
    Section,
    Table,
    TableView,
    Unit,
    humanize,
    select_nonempty,
)
from outpace.timeline import Run
from outpace.tools.memory_profile import TOOL
from outpace.tools.memory_profile import findings as rules
from outpace.tools.memory_profile.breakdown import BEFORE_PEAK_STEP, STACK
from outpace.tools.memory_profile.compute import (
    compute_breakdown,
    compute_earlier_allocations,
    compute_headroom,
    compute_memories,
    compute_timeline,
    format_memory_name,
    sort_by_fullness,
)
from outpace.tools.memory_profile.growth import compute_growth, compute_step_ends, compute_unfreed
from outpace.tools.memory_profile.memory_log import MemoryLog, build_memory_logs

_COLORS = {
    "stack_bytes": Category.INPUT.value,
    "heap_bytes": Category.KERNEL_LAUNCH.value,
}  # colours of the guide: stack red, heap orange
_SAMPLING = "Of many events, those are drawn at which most and least was in use."
_ESTIMATE = (
    "An estimate, not a measurement: memory that is live at the peak as temp or output is assumed to scale with the batch size, all other "
    "memory to stay. Memory without a region type may do either: hence a range. Where no memory has one (JAX), capture with two sizes of "
    "batch: what the peak grows by is what scales."
)
_BY = ("op", "region", "shape", "data_type", "memory")
_BREAKDOWN_REMARK = (
    f"Allocations of the peak's step, equal ones merged; '{BEFORE_PEAK_STEP}' is everything else on the heap: weights, optimizer state, "
    "batches that were prefetched."
)
_NO_OP_REMARK = (
    " Which op asked for the memory, and for an array of which shape, the allocator does not say (JAX's never does): "
    "jax.jit(f).lower(...).compile().memory_analysis() tells it by program, jax.profiler.save_device_memory_profile by line."
)
_EARLIER_REMARK = f"Part of the row {BEFORE_PEAK_STEP} above."


def analyse(run: Run) -> Page:
    """Return the page of a run."""
    logs, unsized = build_memory_logs(run)
    summary, over_time = compute_memories(run, logs), compute_timeline(run, logs)
    ends = compute_step_ends(run, logs)
    trend, left = compute_growth(ends, logs), compute_unfreed(run, logs)
    breakdown, before = compute_breakdown(logs), compute_earlier_allocations(logs)
    sections = (
        _figures(run, logs, summary),
        _chart(over_time, logs),
        *_notes(run, logs, unsized),
        TableView(
            summary,
            _with_host(
                run, "memory", "peak_bytes", "capacity_bytes", "peak_share", "headroom_bytes", "fragmentation", "peak_step"
            ),
        ),
        TableView(
            breakdown, _breakdown_columns(run, logs, breakdown), limit=15, remark=_remark(breakdown), pick=("memory",), by=_BY
        ),
        *select_nonempty(
            TableView(before, _breakdown_columns(run, logs, before), limit=5, remark=_EARLIER_REMARK),
            TableView(
                trend, _with_host(run, "memory", "steps", "rising", "first_bytes", "last_bytes", "per_step_bytes", "leak")
            ),
            TableView(left, _with_host(run, "memory", "op", "occurrences", "total_bytes", "steps", "per_step_bytes"), limit=5),
        ),
        TableView(
            compute_headroom(logs),
            _with_host(run, "memory", "peak_bytes", "scaling_bytes", "fixed_bytes", "estimate"),
            remark=_ESTIMATE,
        ),
    )
    findings = rules.iter_findings(summary, trend, left, find_workload(run))
    return TOOL.page(_headline(run, logs, summary), sections, findings, (ends,))


def _with_host(run: Run, *columns: str) -> tuple[str, ...]:
    """Return the columns to show first, with the host only where the run has several."""
    return ("host", *columns) if len(run.hosts) > 1 else columns


def _remark(breakdown: Table) -> str:
    """Return the remark below the breakdown: what its rows are, and why no row names an op where
    none does.
    """
    ops = set(breakdown["op"].tolist()) - {BEFORE_PEAK_STEP, STACK, ""}
    return _BREAKDOWN_REMARK if ops else _BREAKDOWN_REMARK + _NO_OP_REMARK


def _breakdown_columns(run: Run, logs: Sequence[MemoryLog], table: Table) -> tuple[str, ...]:
    """Return the columns of a breakdown, without those that are empty in all rows."""
    filled = {name for name in ("region", "shape", "data_type") if any(table[name].tolist())}
    every = ("op", "total_bytes", "occurrences", "region", "shape", "data_type", "allocated_bytes", "requested_bytes", "share")
    columns = tuple(name for name in every if name in filled or name not in ("region", "shape", "data_type"))
    return _with_host(run, *(("memory", *columns) if len(logs) > 1 else columns))


def _headline(run: Run, logs: Sequence[MemoryLog], summary: Table) -> str:
    """Return the sentence at the top of the page: the peak of the fullest memory."""
    first = next(summary.records())
    where = format_memory_name(run, sort_by_fullness(logs)[0])
    peak = humanize(first["peak_bytes"], Unit.BYTES)
    step = "" if first["peak_step"] is None else f" in step {first['peak_step']}"
    if first["capacity_bytes"] is None:
        return f"{where} has {peak} in use at its peak{step}; its allocator reports no limit."
    fullest = ", the fullest memory," if len(summary) > 1 else ""
    capacity = humanize(first["capacity_bytes"], Unit.BYTES)
    return f"{where}{fullest} has {peak} of {capacity} in use at its peak{step} ({first['peak_share']:.1%})."


def _figures(run: Run, logs: Sequence[MemoryLog], summary: Table) -> Figures:
    """Return the guide's summary of the fullest memory, and of each memory that the chart lets the
    reader choose instead.
    """
    fullest, *further = (
        _numbers(format_memory_name(run, log), row) for log, row in zip(sort_by_fullness(logs), summary.records(), strict=True)
    )
    return replace(fullest, others=tuple(further))


def _numbers(name: str, row: Mapping[str, Any]) -> Figures:
    """Return the figures of one memory; `row` is its row of `MEMORIES`."""
    origin = "as its allocator reports it" if row["capacity_bytes"] else "its allocator reports no limit"
    before = humanize(row["before_bytes"], Unit.BYTES)
    items = (
        Figure("Allocations", row["allocations"], Unit.COUNT, f"{row['deallocations']:,} deallocations"),
        Figure("Capacity", row["capacity_bytes"], Unit.BYTES, origin),
        Figure("Peak heap", row["peak_heap_bytes"], Unit.BYTES, "since the program started, as reported"),
        Figure(
            "Peak in the capture",
            row["peak_bytes"],
            Unit.BYTES,
            f"{humanize(row['peak_time_ps'], Unit.PS)} after its first event",
        ),
        Figure("Stack", row["stack_bytes"], Unit.BYTES, "at this peak"),
        Figure("Heap", row["heap_bytes"], Unit.BYTES, f"at this peak; {before} are older than the capture"),
        Figure("Free", row["free_bytes"], Unit.BYTES, "at this peak"),
        Figure("Fragmentation", row["fragmentation"], Unit.FRACTION, "free memory outside its largest chunk"),
    )
    return Figures(name, items, (row["host"], row["memory"]))


def _chart(table: Table, logs: Sequence[MemoryLog]) -> Chart:
    """Return the chart of memory use over time, for the memory that the reader chooses, initially
    the fullest.
    """
    parts = ["stack_bytes"] if table["stack_bytes"].any() else []
    series = AreaColumns("free_bytes", "step", "fragmentation", (*parts, "heap_bytes")).series
    cut = _SAMPLING if len(table) < sum(len(log) for log in logs) else ""
    return Chart(
        table.title, ChartKind.AREA, table, "time_ps", series, _COLORS, cut, select="host", then=("memory",), detail="breakdown"
    )


def _notes(run: Run, logs: Sequence[MemoryLog], unsized: int) -> list[Section]:
    """Return a paragraph about what was not recorded; [] where nothing is missing.

    unsized: number of memory events that do not record how much memory is in use
    """
    notes = []
    if unsized:
        notes.append(f"{unsized:,} memory events that do not say how much is in use are left out.")
    silent = [t.host for t in run.hosts if t.host not in {log.host for log in logs}]
    if silent:
        notes.append(f"No memory event was recorded on {', '.join(silent)}.")
    return [Paragraph("", " ".join(notes))] if notes else []

# SPDX-License-Identifier: Apache-2.0
"""The page about XLA programs."""

from __future__ import annotations

from outpace.metrics.facts.roofs import Bound
from outpace.model import Chart, ChartKind, Page, Paragraph, Section, Table, TableView, Unavailable, select_nonempty
from outpace.timeline import Run
from outpace.tools.hlo_stats import TOOL
from outpace.tools.hlo_stats.compute import (
    collect_totals,
    compute_autotuning,
    compute_categories,
    compute_ops,
    compute_programs,
)

_BY = ("category", "bound", "op", "framework_op", "source", "program", "device")
_ROOF_COLUMNS = ("above_ps", "of_roof", "bound")
_OP_COLUMNS = (
    "rank",
    "self_ps",
    "fraction",
    "op",
    "source",
    "description",
    "category",
    "framework_op",
    "occurrences",
    "mean_ps",
    "flops_per_s",
    "bytes_per_s",
    "intensity",
)
_PROGRAM_COLUMNS = (
    "program",
    "runs",
    "run_ps",
    "fraction",
    "ops",
    "flops",
    "flops_per_s",
    "wall_flops_per_s",
    "text_flops",
    "peak_share",
    "bytes",
    "bytes_per_s",
    "above_ps",
    "inside_ps",
    "before_ps",
    "argument_bytes",
    "donated_bytes",
)
_GRAPH_COLUMNS = ("program", "graph", "launches", "kernels", "device_ps", "host_ps", "update_ps", "patched", "reason")
_TUNING = (
    "XLA times ops in several forms while it compiles, and takes the fastest: no work of the training, and in no table above."
)
_SENTENCE = {
    Bound.COMPUTE: "is bound by arithmetic",
    Bound.MEMORY: "by the memory",
    Bound.CACHE: "by a cache",
    Bound.START: "by the start of kernels",
    Bound.NEITHER: "by none of these (it could be faster)",
    Bound.TRANSFER: "waits for transfers",
    Bound.UNKNOWN: "is of unknown work",
}
_TAKES_TIME, _OTHER = 0.05, 0.05  # share of a program that counts; relative difference of counts that is told
_OTHER_COUNT = (
    "By their text (FLOPs, text) programs have another number of operations than ran: a loop whose count only its data tell, or runs of "
    "which the capture lost a part."
)
_UNMEASURED = (
    "How far ops are from what this machine can do is not known: 'outpace doctor --peaks' measures its processor once, in seconds, and "
    "captures from then on have it."
)
_NONE = Unavailable(
    "no op of an XLA program was recorded",
    "Programs come from jax.jit, from tf.function(jit_compile=True) and model.compile(jit_compile=True), and run on every TPU.",
)


def analyse(run: Run) -> Page:
    """Return the page of a run."""
    totals, tuned = collect_totals(run)
    if not totals:
        return TOOL.page(unavailable=_NONE)
    from outpace.tools.hlo_stats.texts import build_texts  # most reports are of no compiled program

    table, categories, compiled = compute_ops(totals, run), compute_categories(totals), compute_programs(totals, run)
    is_known, autotuning = _has_roofs(table), compute_autotuning(tuned)
    columns = (*_OP_COLUMNS[:3], *_ROOF_COLUMNS * is_known, *_OP_COLUMNS[3:])
    sections = (
        Chart("Time by category of op", ChartKind.PIE, categories, "category", ("self_ps",)),
        *_pictures(run, table, compiled, autotuning),
        *((Paragraph("Roofs", _UNMEASURED),) if not is_known and not run.has_device else ()),
        TableView(table, columns, limit=15, pick=("program", "device", "host"), by=_BY),
        *select_nonempty(TableView(build_texts(run, totals), limit=5, folded=True, pick=("program",))),
        TableView(compiled, _PROGRAM_COLUMNS, remark=_OTHER_COUNT * _counts_differ(compiled)),
        *(_graphs(run) if run.has_device else ()),
        *select_nonempty(TableView(autotuning, ("program", "occurrences", "self_ps"), limit=10, remark=_TUNING)),
    )
    return TOOL.page(_headline(table, compiled), sections)


def _headline(table: Table, compiled: Table) -> str:
    """Return the sentence at the top of the page: the longest program and the longest op."""
    op, program = next(table.records()), next(compiled.records())
    origin = f", compiled from {op['framework_op'] or op['source']}" if op["framework_op"] or op["source"] else ""
    name = program["program"] or "One program"
    longest = f"{name} takes {program['fraction']:.0%} of the op time; the longest op is {op['op']} ({op['category']}{origin})."
    if not _has_roofs(table):
        return longest
    whole = float(table["self_ps"].sum()) or 1.0
    shares = {bound: float(table["self_ps"][table["bound"] == bound.value].sum()) / whole for bound in _SENTENCE}
    bounds = ", ".join(f"{share:.0%} {_SENTENCE[bound]}" for bound, share in shares.items() if share >= _TAKES_TIME)
    above = float(table["above_ps"].sum()) / whole
    return f"{longest} Of the op time {bounds}; {above:.0%} is above the ops' roofs."


def _counts_differ(programs: Table) -> bool:
    """Whether the operations of a program that takes time are others by its text than by what
    ran.
    """
    rows = (row for row in programs.records() if row["flops"] and row["text_flops"] and row["fraction"] >= _TAKES_TIME)
    return any(abs(row["flops"] / row["text_flops"] - 1) > _OTHER for row in rows)


def _graphs(run: Run) -> tuple[Section, ...]:
    """Return the table of CUDA graphs, where there are any."""
    from outpace.tools.hlo_stats.program_runs import build_graphs  # most reports are of programs without a device

    return tuple(select_nonempty(TableView(build_graphs(run), _GRAPH_COLUMNS, limit=15)))


def _pictures(run: Run, table: Table, programs: Table, autotuning: Table) -> tuple[Chart, ...]:
    """Return the pictures of compiled ops: op profiles, and the roofline."""
    # most reports are of programs without a device
    from outpace.tools.hlo_stats.op_profile import build_op_profiles
    from outpace.tools.hlo_stats.roofline import build_roofline

    roofline = build_roofline(run, table)
    return (*build_op_profiles(table, programs, autotuning), *((roofline,) if roofline is not None else ()))


def _has_roofs(table: Table) -> bool:
    """Whether the roof of any op is known."""
    return set(table["bound"].tolist()) != {Bound.UNKNOWN.value}

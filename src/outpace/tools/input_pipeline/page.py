# SPDX-License-Identifier: Apache-2.0
"""The page about the input pipeline."""

from __future__ import annotations

import math

from outpace.metrics.cluster.program_groups import hosts_that_train_together
from outpace.metrics.facts.cpu_saturation import cpu_saturation
from outpace.metrics.facts.host_offload import host_offloads
from outpace.metrics.facts.input_pipelines import slowest_segment_share
from outpace.metrics.facts.op_metrics import op_metrics
from outpace.metrics.facts.step_breakdown import CATEGORY_COLORS, CATEGORY_COLUMNS, StepBreakdown, step_breakdown
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.savings.best_case import contention_saving
from outpace.metrics.savings.budget import profiling_slowdown_ps
from outpace.model import (
    Category,
    Chart,
    ChartKind,
    Figure,
    Figures,
    Page,
    Paragraph,
    Section,
    TableView,
    Unavailable,
    Unit,
    select_nonempty,
)
from outpace.timeline import Run
from outpace.tools.input_pipeline import TOOL
from outpace.tools.input_pipeline import findings as rules
from outpace.tools.input_pipeline.compute import (
    compute_host_categories,
    compute_input_ops,
    compute_step_statistics,
    compute_wait_ranges,
)

_NONE = Unavailable(
    "neither steps nor input ops were recorded",
    "Capture while the program trains, and mark the steps (or let 'outpace profile' do so).",
)
_CONTENTION = "CPU contention: tf.data threads compete with the model for cores; this is not counted as input wait."
_OP_COLUMNS = ("op", "instances", "count", "self_ps", "self_fraction", "total_ps", "total_fraction", "category")


def analyse(run: Run) -> Page:
    """Return the page of a run."""
    breakdown = step_breakdown(run)
    ops, instances = compute_input_ops(op_metrics(run))
    # Steps of length 0 have no shares.
    steps = len(breakdown.steady_steps) if breakdown.steady_steps["duration_ps"].any() else 0
    if steps == 0 and len(ops) == 0:
        return TOOL.page(unavailable=_NONE)
    saturation = None if run.has_device or steps == 0 else cpu_saturation(run)
    sections: list[Section] = (
        list(_wait_sections(run, breakdown))
        if steps
        else [Paragraph("No steps", "No step was found, so the input wait cannot be measured.")]
    )
    if saturation is not None:
        sections.append(TableView(saturation, remark=_CONTENTION))
    if len(ops):
        sections.append(TableView(compute_host_categories(ops, steps), ("category", "per_step_ps", "fraction", "advice")))
        sections.append(TableView(ops, _OP_COLUMNS))
        sections += select_nonempty(
            TableView(instances, tuple(name for name in _OP_COLUMNS if name != "instances"), folded=True)
        )
    headline = rules.render_headline(breakdown) if steps else "Input ops were recorded, but no step to relate them to."
    back = _contention_by_host(run, breakdown)
    facts = (find_workload(run), slowest_segment_share(run), host_offloads(run))
    findings = rules.iter_findings(breakdown, saturation, back, *facts) if steps else ()
    return TOOL.page(headline, sections, findings)


def _contention_by_host(run: Run, breakdown: StepBreakdown) -> dict[str, tuple[float, float]]:
    """Return by host (maximum share of its own time that a step saves if no input thread used a
    core, slowdown of a step by the profiler in ps).
    """
    whole = breakdown.steady_steps
    hosts = [(t, host_steps) for t in run.hosts if len(host_steps := whole.filter_by("host", t.host))]
    waits = {t.host: float(breakdown.category_ps(Category.INPUT, host_steps).mean()) for t, host_steps in hosts}
    return {t.host: (contention_saving(run, t, math.inf, waits[t.host])[1], profiling_slowdown_ps(run, t)) for t, _ in hosts}


def _wait_sections(run: Run, breakdown: StepBreakdown) -> tuple[Section, ...]:
    """Return the sections about the wait for input on the device; without an accelerator the host
    is the device.
    """
    table, ranges = compute_step_statistics(breakdown), compute_wait_ranges(breakdown, hosts_that_train_together(run))
    share, moved = max(0.0, rules.judge_input_wait(breakdown)[2] - breakdown.transfer_share), breakdown.transfer_share
    where = "device" if run.has_device else "host (no accelerator)"
    several = len(set(breakdown.steps["host"].tolist())) > 1
    chart = Chart(
        "Step time",
        ChartKind.STACK_SERIES,
        breakdown.steps,
        "step",
        CATEGORY_COLUMNS,
        CATEGORY_COLORS,
        select="host" if several else "",
    )
    return (
        Figures(
            "Summary",
            (
                Figure("Waiting for input", share, Unit.FRACTION, f"of the step time on the {where}"),
                *((Figure("Transfers from the host", moved, Unit.FRACTION, "of the step time"),) if moved else ()),
            ),
        ),
        chart,
        TableView(table, ("category", "mean_ps", "deviation_ps", "min_ps", "max_ps", "fraction")),
        *select_nonempty(TableView(ranges, ("step", "hosts", "min_ps", "mean_ps", "max_ps", "host"), limit=20)),
    )

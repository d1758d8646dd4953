"""The input pipeline page."""

from __future__ import annotations

import math

from outpace.metrics.input.segments import works_ahead
from outpace.metrics.machine.cpu_saturation import cpu_saturation
from outpace.metrics.machine.offload import offloads
from outpace.metrics.machine.own_best import competition
from outpace.metrics.model.op_metrics import op_metrics
from outpace.metrics.program.budget import slowed
from outpace.metrics.program.program import program
from outpace.metrics.program.step_breakdown import StepBreakdown, step_breakdown
from outpace.model import Category, Chart, ChartKind, Figure, Figures, Page, Rows, Section, Text, Unavailable, Unit, filled
from outpace.timeline import Run
from outpace.tools.input_pipeline import TOOL
from outpace.tools.input_pipeline import findings as rules
from outpace.tools.input_pipeline.compute import host_categories, input_ops, statistics

_NONE = Unavailable(
    "neither steps nor input ops were recorded",
    "Capture while the program trains, and mark the steps (or let 'outpace profile' do so).",
)
_CONTENTION = "CPU contention: tf.data threads compete with the model for cores; this is not counted as input wait."
_OP_COLUMNS = ("op", "instances", "count", "self_ps", "self_fraction", "total_ps", "total_fraction", "category")
_COLUMNS = tuple(f"{c.value}_ps" for c in Category)


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    breakdown = step_breakdown(run)
    ops, instances = input_ops(op_metrics(run))
    steps = len(breakdown.whole) if breakdown.whole["duration_ps"].any() else 0  # steps without length have no shares
    if steps == 0 and len(ops) == 0:
        return TOOL.page(unavailable=_NONE)
    saturation = None if run.has_device or steps == 0 else cpu_saturation(run)
    sections: list[Section] = (
        list(_waiting(run, breakdown))
        if steps
        else [Text("No steps", "No step was found, so the input wait cannot be measured.")]
    )
    if saturation is not None:
        sections.append(Rows(saturation, remark=_CONTENTION))
    if len(ops):
        sections.append(Rows(host_categories(ops, steps), ("category", "per_step_ps", "fraction", "advice")))
        sections.append(Rows(ops, _OP_COLUMNS))
        sections += filled(Rows(instances, tuple(name for name in _OP_COLUMNS if name != "instances"), folded=True))
    headline = rules.headline(breakdown) if steps else "Input ops were recorded, but no step to relate them to."
    back = _given_back(run, breakdown)
    findings = tuple(rules.find(breakdown, saturation, back, program(run), works_ahead(run), offloads(run))) if steps else ()
    return TOOL.page(headline=headline, sections=tuple(sections), findings=findings)


def _given_back(run: Run, breakdown: StepBreakdown) -> dict[str, tuple[float, float]]:
    """By host: the share of its own time that a step saves at most if no input thread used a core, and what the profiler took of it, ps."""
    whole = breakdown.whole
    hosts = [(t, mine) for t in run.hosts if len(mine := whole.of("host", t.host))]
    waits = {t.host: float(breakdown.category(Category.INPUT, mine).mean()) for t, mine in hosts}
    return {t.host: (competition(run, t, math.inf, waits[t.host])[1], slowed(run, t)) for t, _ in hosts}


def _waiting(run: Run, breakdown: StepBreakdown) -> tuple[Section, ...]:
    """Device-side analysis; without an accelerator the host is the device."""
    table = statistics(breakdown)
    share, moved = max(0.0, rules.verdict(breakdown)[2] - breakdown.transfers), breakdown.transfers
    where = "device" if run.has_device else "host (no accelerator)"
    several = len(set(breakdown.steps["host"].tolist())) > 1
    colors = {c: c.removesuffix("_ps") for c in _COLUMNS}
    chart = Chart(
        "Step time", ChartKind.STACK_SERIES, breakdown.steps, "step", _COLUMNS, colors, select="host" if several else ""
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
        Rows(table, ("category", "mean_ps", "deviation_ps", "min_ps", "max_ps", "fraction")),
    )

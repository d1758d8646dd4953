# SPDX-License-Identifier: Apache-2.0
"""The overview's page."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from outpace._lazy import compile_lazily
from outpace.metrics.cluster.program_groups import comparable_groups, main_program_hosts
from outpace.metrics.facts.batch_size import examples_per_step
from outpace.metrics.facts.cpu_saturation import other_processes_cores
from outpace.metrics.facts.device_specs import device_specs
from outpace.metrics.facts.hlo_instructions import has_one_module
from outpace.metrics.facts.missing_steps import explain_missing_steps
from outpace.metrics.facts.op_metrics import op_metrics
from outpace.metrics.facts.partial_steps import partial_step_reason
from outpace.metrics.facts.python_lines import sampled_python_share
from outpace.metrics.facts.step_breakdown import CATEGORY_COLORS, CATEGORY_COLUMNS, StepBreakdown, step_breakdown
from outpace.metrics.facts.step_gaps import step_gaps
from outpace.metrics.facts.tf_functions import tf_functions
from outpace.metrics.facts.workload import Workload, find_workload
from outpace.metrics.savings.bounds import half_precision_fraction
from outpace.metrics.savings.budget import ALL_HOSTS, ProfilingCost, budgets, profiling_cost
from outpace.metrics.views.host_time import host_time
from outpace.model import (
    Category,
    Chart,
    ChartKind,
    Figure,
    Figures,
    Finding,
    Link,
    Links,
    Page,
    Paragraph,
    Section,
    TableView,
    Unit,
    humanize,
)
from outpace.model.units import format_count
from outpace.timeline import Confidence, Run, Timeline
from outpace.timeline.steady_state import Exclusion
from outpace.tools.overview import TOOL, capture_findings, step_overheads, unsteady_steps
from outpace.tools.overview import findings as rules
from outpace.tools.overview.bottleneck import build_step_chart, find_bottleneck, format_step_name
from outpace.tools.overview.compiling_steps import CompilingSteps, find_compiling_steps
from outpace.tools.overview.compute import (
    MeanStep,
    StepRate,
    compute_hosts,
    compute_mean_step,
    compute_precision_shares,
    compute_step_rate,
    iter_top_ops,
)


def analyse(run: Run) -> Page:
    """Build the overview of a run."""
    every = step_breakdown(run)
    breakdown = every.select_hosts(*main_program_hosts(run))
    mean = compute_mean_step(breakdown)
    environment = compute_hosts(run, every)
    kind = find_workload(run)
    findings = (*capture_findings.iter_findings(run, kind), *_advice(run, breakdown, mean, kind))
    if run.events == 0:
        return TOOL.page("", (TableView(environment, _HOST_COLUMNS),), findings, unavailable=explain_missing_steps(run))
    if not mean.step_count:
        why = explain_missing_steps(run)
        sentence = f"{why.reason[:1].upper()}{why.reason[1:]}."
        return TOOL.page(
            sentence,
            (Paragraph("No steps", f"{sentence} {why.remedy}"), *_ops(run), TableView(environment, _HOST_COLUMNS)),
            findings,
        )
    speed = _speed(run, breakdown, mean)
    sections = (
        _summary(run, breakdown, mean, kind, speed),
        _graph(run, every),
        _links(mean),
        TableView(host_time(run)),
        *_ops(run),
        TableView(environment, _HOST_COLUMNS),
    )
    glance = build_step_chart(run, mean, format_step_name(run, mean, is_compiling=find_compiling_steps(breakdown) is not None))
    return TOOL.page(
        render_headline(run, mean),
        sections,
        findings,
        () if glance.table is mean.table else (mean.table,),
        glance=glance,
        key_figures=speed,
        evidence=tuple(_evidence(run, breakdown, mean)),
        verdict=render_verdict(run, mean),
    )


def _advice(run: Run, breakdown: StepBreakdown, mean: MeanStep, kind: Workload) -> Iterator[Finding]:
    """Yield the findings of all rules of the overview, without those on the capture."""
    python = sampled_python_share(run, main_program_hosts(run))
    # These facts matter only with devices; without them, the compiled programs need not be read.
    facts = (python, half_precision_fraction(run), has_one_module(run)) if run.has_device else (python,)
    yield from rules.iter_findings(breakdown, mean, tf_functions(run), kind, device_specs(run), *facts)
    if mean.step_count:
        yield from step_overheads.iter_findings(run, kind)
        yield from unsteady_steps.iter_findings(run, breakdown, kind)
        yield from rules.iter_gap_findings(compute_step_rate(run, mean), mean, kind, next(iter(step_gaps(run).values()), None))
    for timeline in run.hosts:
        cost = profiling_cost(run, timeline)
        yield from rules.iter_profiling_findings(timeline.host, cost if cost and cost.is_plausible else None)


_STEP_COUNT = compile_lazily(r"(?P<count>[\d,]+)(?P<what>[^\d,].*)")
_NOTICEABLE = 0.01  # slowdown by profiling below which the difference is chance
_SET_ASIDE = (Exclusion.SLOW.value, Exclusion.ONE_OFF.value)
_MUCH_SET_ASIDE = 0.15  # minimum share of the time of all steps in excluded steps for the step rate to mention them
_OTHER_CORES = 0.5  # cores used by other processes, below which they hardly slow a training
_PS_PER_NS = 1000  # picoseconds per nanosecond
# Speedup while profiling from which the steps before and during it compare different work, since
# profiling does not speed steps up.
_PHASE_CHANGE = 0.10
_HOST_COLUMNS = ("host", "steps", "source", "mean_ps", "events", "window_ps", "devices", "cpu_cores", "framework")


def render_headline(run: Run, mean_step: MeanStep) -> str:
    """Return one sentence: what bounds the program, and by how much."""
    if why := partial_step_reason(run):
        return f"No whole training step was captured: {why}."
    between = compute_step_rate(run, mean_step).outside_share
    apart = f"{between:.0%} of the time is spent between the steps. Within the steps: " if between >= _MOSTLY_BETWEEN else ""
    groups, hosts = comparable_groups(run)[0], main_program_hosts(run)
    which = f"{len(groups)} different programs; the one shown is on {', '.join(hosts[:3])}. " if len(groups) > 1 else ""
    return which + apart + find_bottleneck(run, mean_step).sentence


def render_verdict(run: Run, mean_step: MeanStep) -> str:
    """Return what bounds the step in two words; "" where no whole step was captured."""
    if partial_step_reason(run):
        return ""
    bottleneck = find_bottleneck(run, mean_step)
    return f"{bottleneck.word} {bottleneck.share:.0%}"


# Minimum number of steps to know how they vary, and maximum number of excluded or borderline steps
# in the report.
_FEW, _MOST_LINES = 3, 4
_MOSTLY_BETWEEN = 0.5  # share of the time between the steps from which the headline names it
_MOSTLY = 0.5  # share of the step in devices' computation, from which their use is told
_SMALL = 0.01  # share of the step below which a category needs no further reading
_COMPUTE = ("kernel_stats.kernels", "hlo_stats.hlo_ops", "op_stats.ops")
_BEHIND: dict[Category, tuple[tuple[str, ...], str]] = {
    Category.COMPILATION: (("functions.traces", "functions.compilations"), "which function was built or compiled, and why"),
    Category.INPUT: (("tf_data.stages", "input_pipeline.input_ops"), "which stage of the input pipeline"),
    Category.OUTPUT: (("kernel_stats.copies",), "what is copied back"),
    Category.KERNEL_LAUNCH: (("kernel_stats.launches",), "how long launches wait"),
    Category.HOST_COMPUTE: (("op_stats.ops",), "which ops"),
    Category.DEVICE_TO_DEVICE: (("kernel_stats.copies",), "what is copied, within a device or between devices"),
    Category.DEVICE_COLLECTIVES: (("pod.collectives",), "which collective, and who waits"),
    Category.DEVICE_COMPUTE_16: (_COMPUTE, "which kernels and ops"),
    Category.DEVICE_COMPUTE_32: (_COMPUTE, "which kernels and ops"),
    Category.ALL_OTHERS: (("explain.events",), "between which events"),
}


def _links(mean: MeanStep) -> Links:
    """Return the links from each part of the step to the tables that show its details."""
    rows = zip(Category, mean.table["mean_ps"].tolist(), mean.table["fraction"].tolist(), strict=True)
    return Links(
        "Drill down",
        tuple(
            Link(c.label, time, Unit.PS, *_BEHIND[c]) for c, time, share in sorted(rows, key=lambda r: -r[1]) if share >= _SMALL
        ),
    )


def _graph(run: Run, breakdown: StepBreakdown) -> Chart:
    """Return the chart of the steps in order; with several hosts, the reader chooses one."""
    several = len({t.host for t in run.hosts if len(t.steps)}) > 1
    chosen = "host" if several else ""
    return Chart(
        "Step time", ChartKind.STACK_SERIES, breakdown.steps, "step", CATEGORY_COLUMNS, CATEGORY_COLORS, _remark(run), chosen
    )


def _speed(run: Run, breakdown: StepBreakdown, mean: MeanStep) -> tuple[Figure, ...]:
    """Return the figures of step time and throughput; examples per second where the input pipeline
    shows the size of its batches.
    """
    spread = (
        f"std. dev. {humanize(mean.std_ps, Unit.PS)} over {_steps(mean)}"
        if mean.step_count > 1
        else "one step only: no interval"
    )
    if partial_step_reason(run):
        return (Figure(f"{format_step_name(run, mean, is_compiling=False)} time", mean.mean_ps, Unit.PS, spread),)
    follows, sizes = compute_step_rate(run, mean), examples_per_step(run)
    rate = follows.steps_per_second
    calls = max(breakdown.steps_per_execution.values(), default=1)
    builds = find_compiling_steps(breakdown)
    name = f"{format_step_name(run, mean, is_compiling=builds is not None)} time{' while compiling' * (builds is not None)}"
    figures = [
        Figure(name if calls == 1 else f"Steady call of {calls} steps", mean.mean_ps, Unit.PS, spread),
        *_iter_running_figure(builds),
        *_iter_median_figure(mean),
        *_iter_unprofiled_figure(run),
        *_iter_gap_figure(follows, mean),
        Figure(
            "Steps per second",
            _format_rate(rate),
            Unit.TEXT,
            f"per host, time between steps included{_excluded_remark(run, breakdown)}",
        ),
    ]
    batch_sizes = {sizes.get(host) for host in main_program_hosts(run)}
    if len(batch_sizes) == 1 and (size := batch_sizes.pop()):
        figures.append(Figure("Examples per second", _format_rate(rate * size), Unit.TEXT, f"per host, in batches of {size:,}"))
    return (*figures, *_iter_utilization_figure(run))


def _iter_utilization_figure(run: Run) -> Iterator[Figure]:
    """Yield the figure of the devices' use where their computation takes most of the step."""
    shares = budgets(run)[ALL_HOSTS].category_shares
    if shares[Category.DEVICE_COMPUTE_16.value] + shares[Category.DEVICE_COMPUTE_32.value] < _MOSTLY:
        return
    # most reports are of programs without a device
    from outpace.metrics.views.flops_utilization import duty_cycle, flops_utilization

    if (use := flops_utilization(run)) is not None:
        peak = "the data sheet's" if use.is_data_sheet else "the highest clock's"
        clock = f" ({use.clock_mfu:.0%} at the highest clock)" * use.is_data_sheet
        least = "at least " * use.is_lower_limit
        again = f"; HFU {use.hfu:.0%}, with what is computed again" * (use.hfu > use.mfu)
        rates = f"{use.flops_per_s / 1e12:,.3g} of {peak} {use.peak_flops / 1e12:,.4g} TFLOP/s in 16 bits{clock}"
        yield Figure("MFU", use.mfu, Unit.FRACTION, f"{least}{rates}, of matrix products and convolutions{again}")
    if (busy := duty_cycle(run)) is not None:
        yield Figure("Duty cycle", busy, Unit.FRACTION, "of the step a device is busy, with copies")


def _excluded_remark(run: Run, breakdown: StepBreakdown) -> str:
    """Return a remark on the steps that a rate of steady steps leaves out (an evaluation, a
    checkpoint), where they take much of the time; else "".
    """
    steps = breakdown.select_hosts(*main_program_hosts(run)).steps
    apart, times = np.isin(steps["aside"], _SET_ASIDE), steps["duration_ps"].astype(np.float64)
    share = float(times[apart].sum() / times.sum()) if len(times) else 0.0
    return (
        f", but not {format_count(int(apart.sum()), 'step')} left out with {share:.0%} of the time"
        if share >= _MUCH_SET_ASIDE
        else ""
    )


def _iter_running_figure(builds: CompilingSteps | None) -> Iterator[Figure]:
    """Yield the figure of the step without compilation, for a capture of mostly compilation with
    enough steps that only run.
    """
    if builds is not None and builds.plain_step_ps is not None:
        runs = builds.step_count - builds.count
        yield Figure(
            "Without compiling", builds.plain_step_ps, Unit.PS, f"median of the {format_count(runs, 'step')} that only run"
        )


def _iter_median_figure(mean: MeanStep) -> Iterator[Figure]:
    """Yield the figure of the median step, where few steps determine the mean."""
    if mean.is_uneven:
        yield Figure("Median step", mean.median_ps, Unit.PS, f"the mean is {mean.mean_ps / mean.median_ps:.2g} times as long")


def _iter_gap_figure(follows: StepRate, mean: MeanStep) -> Iterator[Figure]:
    """Yield the figure of the time between the steps, which together with the step time makes the
    cycle that the rate counts.
    """
    if follows.gap_ps >= _SMALL * mean.mean_ps:
        yield Figure("Between steps", follows.gap_ps, Unit.PS, "mean, from the end of a step to the start of the next one")


def _iter_unprofiled_figure(run: Run) -> Iterator[Figure]:
    """Yield the figure of the step without the profiler, which savings are shares of; nothing where
    profiling did not change the step, or the capture did not measure it.
    """
    budget = budgets(run)[ALL_HOSTS]
    if budget.profiling_share:
        slower = 1 / (1 - budget.profiling_share)
        cost = next(cost for timeline in run.hosts if (cost := profiling_cost(run, timeline)) is not None)
        as_long = f"the {cost.average} step took so many times as long as {cost.when} the capture"
        remark = f"estimated: the step time above by {slower:.3g}, as {as_long}"
        yield Figure("Without the profiler", budget.step_ps, Unit.PS, remark)


def _format_rate(rate: float) -> str:
    """Return a rate with three significant digits, never in powers of ten."""
    return f"{float(f'{rate:.3g}'):,.{max(0, 2 - math.floor(math.log10(rate)))}f}" if rate > 0 else "0"


def _summary(run: Run, breakdown: StepBreakdown, mean: MeanStep, kind: Workload, speed: tuple[Figure, ...]) -> Figures:
    """Return the figures of the performance summary."""
    confidence = max((t.steps.confidence for t in run.hosts if len(t.steps)), key=list(Confidence).index)
    per_row = max(breakdown.steps_per_execution.values(), default=1)
    outside = compute_step_rate(run, mean).outside_share
    items = [
        *speed,
        *(() if partial_step_reason(run) else (Figure("Step boundaries", confidence.value, Unit.TEXT, _source(run)),)),
        Figure("Program", kind.name, Unit.TEXT),
    ]
    if outside >= _SMALL:
        items.append(Figure("Time outside of steps", outside, Unit.FRACTION, "of the time from the first step to the last"))
    if per_row > 1:
        items.append(Figure("Training steps per call", per_row, Unit.COUNT, "steps_per_execution; rows below are calls"))
    if (shares := compute_precision_shares(breakdown)) is not None:
        items.append(Figure("Device compute in 16 bits", shares[0], Unit.FRACTION, "of device compute time"))
        items.append(Figure("Device compute in 32 bits", shares[1], Unit.FRACTION, "of device compute time"))
    return Figures("Performance summary", tuple(items))


def _evidence(run: Run, breakdown: StepBreakdown, mean: MeanStep) -> list[str]:
    """Return lines on the quality of the evidence: how many steps there are, how they were found,
    which were excluded or nearly excluded, and what profiling itself cost.
    """
    lines = [f"{_steps(mean)}: {_remark(run)}"]
    if mean.step_count < _FEW:
        lines.append(f"only {_steps(mean)}: the variation between steps is unknown; capture ten or more")
    if (builds := find_compiling_steps(breakdown)) is not None:
        lines.append(builds.render_caveat(run))
    if mean.is_uneven:
        lines.append(_format_spread(breakdown, mean))
    for timeline in run.hosts:
        cost = profiling_cost(run, timeline)
        if cost is not None:
            lines.append(f"{_cost(cost)} ({timeline.host}){_format_measurement(run, timeline, cost)}")
    if any(run.record(timeline.host).get("command_buffers") is False for timeline in run.hosts):
        lines.append("CUDA graphs were off (XLA_FLAGS): launches take longer than they do with them")
    if faults := sum(sum((run.record(timeline.host).get("faults") or {}).values()) for timeline in run.hosts):
        lines.append(
            f"the capture met {format_count(faults, 'fault')} of its own (the record's 'faults'), so that something may be missing"
        )
    near = [f"{text} ({t.host})" if len(run.hosts) > 1 else text for t in run.hosts for text in t.steps.borderline]
    for texts, what in ((unsteady_steps.render_exclusions(breakdown), "left out (table steps)"), (near, "near a limit")):
        lines += texts[:_MOST_LINES]
        if len(texts) > _MOST_LINES:
            lines.append(f"and {format_count(len(texts) - _MOST_LINES, 'more was', 'more were')} {what}")
    return lines


def _format_spread(breakdown: StepBreakdown, mean: MeanStep) -> str:
    times = breakdown.steady_steps["duration_ps"]
    ends, middle = (humanize(float(time), Unit.PS) for time in (times.min(), times.max())), humanize(mean.median_ps, Unit.PS)
    return f"steps differ widely, from {' to '.join(ends)} (median {middle}): their mean is no steady step"


def _format_measurement(run: Run, timeline: Timeline, cost: ProfilingCost) -> str:
    """Return the two times behind a slowdown by profiling (a median is not the mean of the steady
    steps), and whether other programs may have caused it; "" where the slowdown is not noticeable
    or not plausible.
    """
    if cost.slowdown < _NOTICEABLE or not cost.is_plausible:
        return ""
    plain, profiled = (humanize(time, Unit.PS) for time in (cost.unprofiled_ps, cost.profiled_ps))
    cores = other_processes_cores(run, timeline)
    why = f"; other programs used {cores:.1f} of {run.core_count(timeline)} cores meanwhile" if cores >= _OTHER_CORES else ""
    return f": a {cost.average} of {profiled} instead of {plain}{why}"


def _steps(mean: MeanStep) -> str:
    return format_count(mean.step_count, "step")


def _source(run: Run) -> str:
    return ", ".join(dict.fromkeys(t.steps.source.value for t in run.hosts if len(t.steps)))


def _cost(cost: ProfilingCost) -> str:
    slowdown = cost.slowdown
    if not cost.is_plausible:
        return f"the profiling overhead is unknown: the steps right {cost.when} the capture belong to a faster phase"
    if slowdown < -_PHASE_CHANGE:
        return f"the profiling overhead is unknown: the steps right {cost.when} the capture belong to a slower phase"
    if abs(slowdown) < _NOTICEABLE:
        return "profiling did not change the step time noticeably"
    return f"steps were {abs(slowdown):.0%} {'slower' if slowdown > 0 else 'faster'} while they were profiled"


def _remark(run: Run) -> str:
    """Return how the steps were found. For hosts whose explanations differ only in the number,
    return one text with the lowest and the highest number.
    """
    counted = [_STEP_COUNT.fullmatch(t.steps.explanation) for t in run.hosts]
    if len(counted) > 1 and all(counted) and len({t["what"] for t in counted if t}) == 1:
        counts = sorted(int(t["count"].replace(",", "")) for t in counted if t)
        many = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
        return f"{many}{counted[0]['what'] if counted[0] else ''} of each of {len(counted)} hosts"
    return "; ".join(f"{t.host}: {t.steps.explanation}" if len(run.hosts) > 1 else t.steps.explanation for t in run.hosts)


def _ops(run: Run) -> Iterator[Section]:
    for table in iter_top_ops(op_metrics(run)):
        yield TableView(table, ("rank", "self_fraction", "self_ps", "occurrences", "operation", "category"))

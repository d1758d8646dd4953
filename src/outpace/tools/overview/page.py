"""The overview's page."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from outpace.metrics.input.examples import examples_per_step
from outpace.metrics.machine.cpu_saturation import others_cores
from outpace.metrics.machine.device import device_facts
from outpace.metrics.model.hlo_lines import one_program
from outpace.metrics.model.op_metrics import op_metrics
from outpace.metrics.model.tf_functions import tf_functions
from outpace.metrics.program.between import between
from outpace.metrics.program.budget import ALL_HOSTS, ProfilingCost, budgets, profiling_cost
from outpace.metrics.program.counterfactual import narrowed
from outpace.metrics.program.host_time import host_time
from outpace.metrics.program.no_steps import no_steps
from outpace.metrics.program.program import Program, program
from outpace.metrics.program.same_program import comparable, main_program
from outpace.metrics.program.step_breakdown import StepBreakdown, step_breakdown
from outpace.metrics.program.whole_step import no_whole_step
from outpace.metrics.python.time import python_share
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
    Rows,
    Section,
    Text,
    Unit,
    humanize,
)
from outpace.model.units import counted
from outpace.timeline import Confidence, Run, Timeline
from outpace.timeline.steady import Aside
from outpace.tools.overview import TOOL, calls, capture_findings, unsteady
from outpace.tools.overview import findings as rules
from outpace.tools.overview.bound import bound, name_of, picture
from outpace.tools.overview.compiling import Compiling, compiling
from outpace.tools.overview.compute import (
    Average,
    Pace,
    average,
    hosts,
    pace,
    precision,
    top_ops,
)

_SHOWN = tuple(f"{c.value}_ps" for c in Category)
_COLORS = {f"{c.value}_ps": c.value for c in Category}


def analyse(run: Run) -> Page:
    """Build the overview of a run."""
    every = step_breakdown(run)
    breakdown = every.of(*main_program(run))
    mean = average(breakdown)
    environment = hosts(run, every)
    kind = program(run)
    found = (*capture_findings.find(run, kind), *_advice(run, breakdown, mean, kind))
    if run.events == 0:
        return TOOL.page(unavailable=no_steps(run), sections=(Rows(environment, _HOST_COLUMNS),), findings=found)
    if not mean.rows:
        sections: tuple[Section, ...] = (*_ops(run), Rows(environment, _HOST_COLUMNS))
        why = no_steps(run)
        said = f"{why.reason[:1].upper()}{why.reason[1:]}."
        return TOOL.page(said, (Text("No steps", f"{said} {why.remedy}"), *sections), found)
    speed = _speed(run, breakdown, mean)
    sections = (
        _summary(run, breakdown, mean, kind, speed),
        _graph(run, every),
        _links(mean),
        Rows(host_time(run)),
        *_ops(run),
        Rows(environment, _HOST_COLUMNS),
    )
    glance = picture(run, mean, name_of(run, mean, builds=compiling(breakdown) is not None))
    return TOOL.page(
        headline(run, mean),
        sections,
        found,
        () if glance.table is mean.table else (mean.table,),
        glance=glance,
        key_figures=speed,
        evidence=tuple(_evidence(run, breakdown, mean)),
    )


def _advice(run: Run, breakdown: StepBreakdown, mean: Average, kind: Program) -> Iterator[Finding]:
    python = python_share(run, main_program(run))
    # Without devices nobody asks for these, and the programs need not be read.
    facts = (python, narrowed(run), one_program(run)) if run.has_device else (python,)
    yield from rules.find(breakdown, mean, tf_functions(run), kind, device_facts(run), *facts)
    if mean.rows:
        yield from calls.find(run, kind)
        yield from unsteady.find(run, breakdown, kind)
        yield from rules.outside(pace(run, mean), mean, kind, next(iter(between(run).values()), None))
    for timeline in run.hosts:
        cost = profiling_cost(run, timeline)
        yield from rules.overhead(timeline.host, cost if cost and cost.possible else None)


_COUNTED = re.compile(r"(?P<count>[\d,]+)(?P<what>[^\d,].*)")
_NOTICEABLE = 0.01  # slower: less is chance
_APART = (Aside.SLOW.value, Aside.ONE_OFF.value)
_MUCH_APART = 0.15  # of the time of all steps
_TAKEN = 0.5  # cores: what takes less hardly slows a training
_PS_PER_NS = 1000
_PHASE_CHANGE = 0.10  # profiling does not speed steps up: before and during then compare different work
_HOST_COLUMNS = ("host", "steps", "source", "mean_ps", "events", "window_ps", "devices", "cpu_cores", "framework")


def headline(run: Run, mean: Average) -> str:
    """One sentence: what bounds the program, and by how much."""
    if why := no_whole_step(run):
        return f"No whole training step was captured: {why}."
    between = pace(run, mean).outside
    apart = f"{between:.0%} of the time is spent between the steps. Within the steps: " if between >= _MOSTLY_BETWEEN else ""
    groups, mine = comparable(run)[0], main_program(run)
    which = f"{len(groups)} different programs; the one shown is on {', '.join(mine[:3])}. " if len(groups) > 1 else ""
    return which + apart + bound(run, mean).sentence


_FEW, _MOST_TOLD = 3, 4
_MOSTLY_BETWEEN = 0.5
_SMALL = 0.01  # of the step: what is below needs no further reading
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


def _links(mean: Average) -> Links:
    """Where each part of the step is looked into."""
    rows = zip(Category, mean.table["mean_ps"].tolist(), mean.table["fraction"].tolist(), strict=True)
    return Links(
        "Drill down",
        tuple(
            Link(c.label, time, Unit.PS, *_BEHIND[c]) for c, time, share in sorted(rows, key=lambda r: -r[1]) if share >= _SMALL
        ),
    )


def _graph(run: Run, breakdown: StepBreakdown) -> Chart:
    """The steps in order; of several hosts one at a time, for the reader to choose."""
    several = len({t.host for t in run.hosts if len(t.steps)}) > 1
    chosen = "host" if several else ""
    return Chart("Step time", ChartKind.STACK_SERIES, breakdown.steps, "step", _SHOWN, _COLORS, _remark(run), chosen)


def _speed(run: Run, breakdown: StepBreakdown, mean: Average) -> tuple[Figure, ...]:
    """Step time and throughput; examples per second where the input pipeline says how large its batches are."""
    spread = (
        f"std. dev. {humanize(mean.deviation, Unit.PS)} over {_steps(mean)}" if mean.rows > 1 else "one step only: no interval"
    )
    if no_whole_step(run):
        return (Figure(f"{name_of(run, mean, builds=False)} time", mean.mean, Unit.PS, spread),)
    follows, sizes = pace(run, mean), examples_per_step(run)
    rate = follows.per_second
    calls = max(breakdown.per_row.values(), default=1)
    builds = compiling(breakdown)
    name = f"{name_of(run, mean, builds=builds is not None)} time{' while compiling' * (builds is not None)}"
    figures = [
        Figure(name if calls == 1 else f"Steady call of {calls} steps", mean.mean, Unit.PS, spread),
        *_running(builds),
        *_uneven(mean),
        *_plain(run),
        *_between(follows, mean),
        Figure(
            "Steps per second", _rounded(rate), Unit.TEXT, f"per host, time between steps included{_left_out(run, breakdown)}"
        ),
    ]
    mine = {sizes.get(host) for host in main_program(run)}
    if len(mine) == 1 and (size := mine.pop()):
        figures.append(Figure("Examples per second", _rounded(rate * size), Unit.TEXT, f"per host, in batches of {size:,}"))
    return tuple(figures)


def _left_out(run: Run, breakdown: StepBreakdown) -> str:
    """What a rate of steady steps leaves out, where that is much of the time: an evaluation, a checkpoint."""
    mine = breakdown.of(*main_program(run)).steps
    apart, times = np.isin(mine["aside"], _APART), mine["duration_ps"].astype(np.float64)
    held = float(times[apart].sum() / times.sum()) if len(times) else 0.0
    return f", but not {counted(int(apart.sum()), 'step')} set aside with {held:.0%} of the time" if held >= _MUCH_APART else ""


def _running(builds: Compiling | None) -> Iterator[Figure]:
    """The step that a capture which mostly compiled will have later; none of any other, or where too few steps tell."""
    if builds is not None and builds.running is not None:
        runs = builds.among - builds.steps
        yield Figure("Without compiling", builds.running, Unit.PS, f"median of the {counted(runs, 'step')} that only run")


def _uneven(mean: Average) -> Iterator[Figure]:
    """The median step, where few steps make the mean."""
    if mean.uneven:
        yield Figure("Median step", mean.median, Unit.PS, f"the mean is {mean.mean / mean.median:.2g} times as long")


def _between(follows: Pace, mean: Average) -> Iterator[Figure]:
    """What lies between the steps: with the step time, it makes the cycle that a second holds so many of."""
    if follows.between >= _SMALL * mean.mean:
        yield Figure("Between steps", follows.between, Unit.PS, "mean, from the end of a step to the start of the next one")


def _plain(run: Run) -> Iterator[Figure]:
    """The step without the profiler, which savings are shares of; none where profiling did not change it, or nobody knows."""
    budget = budgets(run)[ALL_HOSTS]
    if budget.profiling:
        slower = 1 / (1 - budget.profiling)
        cost = next(cost for timeline in run.hosts if (cost := profiling_cost(run, timeline)) is not None)
        as_long = f"the {cost.average} step took so many times as long as {cost.when} the capture"
        said = f"estimated: the step time above by {slower:.3g}, as {as_long}"
        yield Figure("Without the profiler", budget.step, Unit.PS, said)


def _rounded(rate: float) -> str:
    """A rate in three digits, never in powers of ten."""
    return f"{float(f'{rate:.3g}'):,.{max(0, 2 - math.floor(math.log10(rate)))}f}" if rate > 0 else "0"


def _summary(run: Run, breakdown: StepBreakdown, mean: Average, kind: Program, speed: tuple[Figure, ...]) -> Figures:
    confidence = max((t.steps.confidence for t in run.hosts if len(t.steps)), key=list(Confidence).index)
    per_row = max(breakdown.per_row.values(), default=1)
    outside = pace(run, mean).outside
    items = [
        *speed,
        *(() if no_whole_step(run) else (Figure("Step boundaries", confidence.value, Unit.TEXT, _source(run)),)),
        Figure("Program", kind.name, Unit.TEXT),
    ]
    if outside >= _SMALL:
        items.append(Figure("Time outside of steps", outside, Unit.FRACTION, "of the time from the first step to the last"))
    if per_row > 1:
        items.append(Figure("Training steps per call", per_row, Unit.COUNT, "steps_per_execution; rows below are calls"))
    if (shares := precision(breakdown)) is not None:
        items.append(Figure("Device compute in 16 bits", shares[0], Unit.FRACTION, "of device compute time"))
        items.append(Figure("Device compute in 32 bits", shares[1], Unit.FRACTION, "of device compute time"))
    return Figures("Performance summary", tuple(items))


def _evidence(run: Run, breakdown: StepBreakdown, mean: Average) -> list[str]:
    """How good the evidence is: how many steps, how they were found, which were set aside or nearly so, and what profiling itself cost."""
    lines = [f"{_steps(mean)}: {_remark(run)}"]
    if mean.rows < _FEW:
        lines.append(f"only {_steps(mean)}: the variation between steps is unknown; capture ten or more")
    if (builds := compiling(breakdown)) is not None:
        lines.append(builds.told(run))
    if mean.uneven:
        lines.append(_widely(breakdown, mean))
    for timeline in run.hosts:
        cost = profiling_cost(run, timeline)
        if cost is not None:
            lines.append(f"{_cost(cost)} ({timeline.host}){_measured(run, timeline, cost)}")
    if any(run.record(timeline.host).get("command_buffers") is False for timeline in run.hosts):
        lines.append("CUDA graphs were off (XLA_FLAGS): launches take longer than they do with them")
    if faults := sum(sum((run.record(timeline.host).get("faults") or {}).values()) for timeline in run.hosts):
        lines.append(
            f"the capture met {counted(faults, 'fault')} of its own (the record's 'faults'), so that something may be missing"
        )
    near = [f"{told} ({t.host})" if len(run.hosts) > 1 else told for t in run.hosts for told in t.steps.near]
    for told, what in ((unsteady.told(breakdown), "set aside (table steps)"), (near, "near a limit")):
        lines += told[:_MOST_TOLD]
        if len(told) > _MOST_TOLD:
            lines.append(f"and {counted(len(told) - _MOST_TOLD, 'more was', 'more were')} {what}")
    return lines


def _widely(breakdown: StepBreakdown, mean: Average) -> str:
    times = breakdown.whole["duration_ps"]
    ends, middle = (humanize(float(time), Unit.PS) for time in (times.min(), times.max())), humanize(mean.median, Unit.PS)
    return f"steps differ widely, from {' to '.join(ends)} (median {middle}): their mean is no steady step"


def _measured(run: Run, timeline: Timeline, cost: ProfilingCost) -> str:
    """The two times behind a slowdown, of which a median is not the mean of the steady steps, and whether it is the profiler's doing at all."""
    if cost.slowdown < _NOTICEABLE or not cost.possible:
        return ""
    plain, profiled = (humanize(time, Unit.PS) for time in (cost.plain, cost.profiled))
    taken = others_cores(run, timeline)
    why = f"; other programs used {taken:.1f} of {run.core_count(timeline)} cores meanwhile" if taken >= _TAKEN else ""
    return f": a {cost.average} of {profiled} instead of {plain}{why}"


def _steps(mean: Average) -> str:
    return counted(mean.rows, "step")


def _source(run: Run) -> str:
    return ", ".join(dict.fromkeys(t.steps.source.value for t in run.hosts if len(t.steps)))


def _cost(cost: ProfilingCost) -> str:
    slowdown = cost.slowdown
    if not cost.possible:
        return f"the profiling overhead is unknown: the steps right {cost.when} the capture belong to a faster phase"
    if slowdown < -_PHASE_CHANGE:
        return f"the profiling overhead is unknown: the steps right {cost.when} the capture belong to a slower phase"
    if abs(slowdown) < _NOTICEABLE:
        return "profiling did not change the step time noticeably"
    return f"steps were {abs(slowdown):.0%} {'slower' if slowdown > 0 else 'faster'} while they were profiled"


def _remark(run: Run) -> str:
    """How the steps were found; of hosts that differ in the number alone, from the fewest to the most."""
    told = [_COUNTED.fullmatch(t.steps.how) for t in run.hosts]
    if len(told) > 1 and all(told) and len({t["what"] for t in told if t}) == 1:
        counts = sorted(int(t["count"].replace(",", "")) for t in told if t)
        many = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
        return f"{many}{told[0]['what'] if told[0] else ''} of each of {len(told)} hosts"
    return "; ".join(f"{t.host}: {t.steps.how}" if len(run.hosts) > 1 else t.steps.how for t in run.hosts)


def _ops(run: Run) -> Iterator[Section]:
    for table in top_ops(op_metrics(run)):
        yield Rows(table, ("rank", "self_fraction", "self_ps", "occurrences", "operation", "category"))

# SPDX-License-Identifier: Apache-2.0
"""Advice on the input pipeline, from the stages that were executed rather than from the script.

TensorFlow parallelises stateless maps and adds a prefetch by itself: the executed stages show it,
so that no finding advises what happens already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from outpace.metrics.facts.batch_size import BATCHING_STAGES, REGROUPING_STAGES
from outpace.metrics.facts.input_iterators import count_iterators
from outpace.metrics.facts.input_pipelines import CHAIN, Pipeline, StageWork
from outpace.metrics.facts.python_lines import find_line_above
from outpace.metrics.facts.step_breakdown import StepBreakdown
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.savings.bounds import background_bound, overlap_bound
from outpace.metrics.savings.budget import build_saving
from outpace.metrics.stage_labels import find_stage_record, is_injected, stage_location
from outpace.model import Category, Certainty, Effort, Evidence, Finding, Severity, Threshold, Unit, humanize
from outpace.timeline import Run
from outpace.tools.tf_data.cache_saving import has_python_op, has_stable_input, repeatable_share
from outpace.tools.tf_data.compute import PipelineTables
from outpace.tools.tf_data.context import IN_EACH, MIN_SHARE, MODERATELY_BOUND, PipelineContext
from outpace.tools.tf_data.slow_stage import iter_slow_stage_findings, render_cache_advice
from outpace.trace import dialect
from outpace.trace.algorithms import distinct, isin

_BUFFER = Threshold(
    "large shuffle buffer", 100.0, Unit.COUNT, "MB; shuffling file names or records before decoding keeps it small"
)
# Maximum busy time of a pipeline, as a share of that of the host's busiest one, for it to be left
# out: it is a counter, or the pipeline of a validation.
_IDLES = 0.25


def iter_findings(run: Run, tables: PipelineTables, breakdown: StepBreakdown) -> Iterator[Finding]:
    """Yield all findings on all pipelines."""
    busiest: dict[str, float] = {}
    # Each epoch creates its pipeline anew: the one with most calls stands for all.
    alike: dict[tuple[str, ...], tuple[str, Pipeline]] = {}
    for (host, _), pipeline in tables.pipelines_by_name.items():
        busiest[host] = max(busiest.get(host, 0.0), _busy(pipeline))
        key = (host, *(stage.position for stage in pipeline.stages))
        if key not in alike or alike[key][1].root_calls < pipeline.root_calls:
            alike[key] = host, pipeline
    restarts = {timeline.host: count_iterators(timeline) for timeline in run.hosts}
    for host, pipeline in alike.values():
        host_steps = breakdown.steady_steps.filter_by("host", host)
        idles = _busy(pipeline) < _IDLES * busiest[host]  # the step waits for another pipeline
        if not host_steps["duration_ps"].sum() or not pipeline.segments or idles:
            continue
        steps, waits = (host_steps[name].astype(np.float64) for name in ("duration_ps", "input_ps"))
        context = PipelineContext(run, run.by_host[host], pipeline, steps, waits)
        yield from _new_iterators(context, restarts.pop(host, 0))
        yield from iter_slow_stage_findings(context)
        if context.severity is Severity.INFO:
            continue
        yield from _no_prefetch(context)
        yield from _no_cache(context)
        yield from _other_python(context)
        yield from _late_shuffle(context)
    yield from _no_shard(run, tables)


def _busy(pipeline: Pipeline) -> float:
    """Return the busy time of the slowest segment over the capture, ps."""
    return pipeline.segments[0].busy_ps * pipeline.root_calls if pipeline.segments else 0.0


def _new_iterators(context: PipelineContext, count: int) -> Iterator[Finding]:
    """Yield the finding that each step makes a new iterator of the data set, of `count` on the
    host: it starts from the beginning, and fills all buffers anew.
    """
    steps = len(context.timeline.steps)
    if count < IN_EACH.value * steps or context.wait_share < MODERATELY_BOUND.value or find_workload(context.run).is_keras:
        return
    line = find_line_above(context.run, context.host, "iterator")
    kinds = [stage.type for stage in context.pipeline.stages]
    fills = ", whose shuffle fills its buffer anew" * any("Shuffle" in kind for kind in kinds)
    yield Finding(
        id="new_iterators",
        severity=Severity.HIGH,
        sentence=f"Each step makes a new iterator of the data set{f' at {line}' * bool(line)}{fills}: {context.wait_share:.0%} of the step "
        "waits for its first element.",
        action="Make the iterator once, before the loop (iterator = iter(dataset), and next(iterator) in it), or loop over the data set "
        "itself.",
        evidence=(Evidence("iterators per step", count / steps, Unit.RATIO, "segments"),),
        threshold=IN_EACH,
        location=line,
        host=context.host,
        saving=build_saving(context.wait_share, Category.INPUT, assumes="if no step waited for a first element"),
        certainty=Certainty.CERTAIN,
        effort=Effort.SMALL,
        explains=("slow_stage", "input_bound", "no_prefetch", "no_cache", "late_shuffle", "input_stalls", "cpu_contention"),
    )


def _no_prefetch(context: PipelineContext) -> Iterator[Finding]:
    """Yield the finding that the training thread itself runs stages with work, so that input and
    model do not overlap.
    """
    segment = next((s for s in context.pipeline.segments if s.kind == CHAIN and s.boundary < 0), None)
    if segment is None or segment.busy_ps < MODERATELY_BOUND.value * context.mean_step_ps:
        return
    yield Finding(
        id="no_prefetch",
        severity=Severity.MODERATE,
        sentence="Nothing is prefetched: the training thread itself runs "
        f"{humanize(segment.busy_ps, Unit.PS)} of the input pipeline per batch.",
        action="End the input pipeline with .prefetch(tf.data.AUTOTUNE).",
        evidence=(Evidence("busy time per batch on the training thread", segment.busy_ps, Unit.PS, "segments"),),
        threshold=MODERATELY_BOUND,
        host=context.host,
        saving=build_saving(
            min(
                overlap_bound(context.wait_durations, context.step_durations),
                background_bound(context.run, context.host, context.wait_share, segment.busy_ps / context.mean_step_ps),
            ),
            Category.INPUT,
            assumes="if input and the rest of the step ran at the same time",
        ),
    )


def _no_cache(context: PipelineContext) -> Iterator[Finding]:
    """Yield a finding for each expensive stage whose results could be cached: deterministic as far
    as the capture shows, and not cached.
    """
    if not context.record.get("pipeline"):
        return
    slowest = context.pipeline.segments[0]
    for stage in context.pipeline.stages:
        noted = find_stage_record(stage.label, context.record)
        if noted.get("op") != "map" or context.is_from_arrays or repeatable_share(stage, context.record) < 1:
            continue
        if has_python_op(stage, context.record) or not has_stable_input(context, stage) or context.has_cached_results(stage):
            continue
        share = stage.work_ps / max(slowest.work_ps, 1)
        if share < MIN_SHARE.value:
            continue
        yield Finding(
            id="no_cache",
            severity=Severity.MODERATE,
            sentence=f"{context.format_stage(stage)} computes the same result in every epoch, and nothing behind it caches that.",
            action=f"{render_cache_advice(context, stage)} Use .cache(filename) if memory is too small.",
            evidence=(Evidence("its share of the slowest segment's work", min(share, 1.0), Unit.FRACTION, "stages"),),
            threshold=MIN_SHARE,
            counter_evidence=("Helps from the second epoch on, and only if the files do not change.",),
            location=stage_location(stage.label, context.record),
            host=context.host,
            saving=context.cache_saving(stage),
            explains=("input_bound", "cpu_contention"),
            effort=Effort.SMALL,
        )


def _other_python(context: PipelineContext) -> Iterator[Finding]:
    """Yield a finding for each stage that runs Python, other than the bottleneck."""
    slowest = context.pipeline.segments[0]
    for stage in context.pipeline.stages:
        share = stage.work_ps / max(slowest.work_ps, 1)
        if (
            not (stage.runs_python or stage.type == "Generator")
            or stage is context.pipeline.bottleneck
            or share < MIN_SHARE.value
        ):
            continue
        yield Finding(
            id="python_in_pipeline",
            severity=Severity.MODERATE,
            sentence=f"{context.format_stage(stage)} runs Python for every element: {share:.0%} of the slowest segment's work.",
            action="Use TensorFlow ops or files, not from_generator, py_function or numpy_function.",
            evidence=(Evidence("its share of the slowest segment's work", min(share, 1.0), Unit.FRACTION, "stages"),),
            threshold=MIN_SHARE,
            location=stage_location(stage.label, context.record),
            host=context.host,
        )


def _late_shuffle(context: PipelineContext) -> Iterator[Finding]:
    """Yield a finding for each shuffle whose buffer contains decoded elements or whole batches."""
    stages = context.pipeline.stages
    for at, stage in enumerate(stages):
        if not stage.type.startswith("Shuffle"):
            continue
        batches = any(BATCHING_STAGES.match(s.type) and _reaches_unchanged(stages, i, at) for i, s in enumerate(stages))
        megabytes = _buffered_megabytes(context, stage)
        if not batches and megabytes < _BUFFER.value:
            continue
        what = (
            "whole batches, so that examples of one batch always stay together"
            if batches
            else f"{megabytes:,.0f} MB of decoded elements"
        )
        yield Finding(
            id="late_shuffle",
            severity=Severity.POTENTIAL,
            sentence=f"{context.format_stage(stage)} shuffles {what}.",
            action="Shuffle file names or undecoded records, before map and batch.",
            evidence=(Evidence("MB in the shuffle buffer", megabytes, Unit.COUNT, "stages"),),
            threshold=_BUFFER,
            location=stage_location(stage.label, context.record),
            host=context.host,
        )


def _reaches_unchanged(stages: Sequence[StageWork], at: int, above: int) -> bool:
    """Whether the elements of a stage reach a later stage unchanged, with no stage between that
    splits or regroups them.
    """
    while (at := stages[at].parent) >= 0:
        if at == above:
            return True
        if REGROUPING_STAGES.match(stages[at].type):
            return False
    return False


def _buffered_megabytes(context: PipelineContext, stage: StageWork) -> float:
    trace = context.timeline.trace
    stat = trace.stat(dialect.BUFFERED_MB)
    name = trace.name[stat.rows]
    codes = [at for at in distinct(name).tolist() if trace.names[at].endswith(f"::{stage.type}")]
    values = stat.floats()[isin(name, codes)]
    return float(values.max()) if len(values) else 0.0


def _no_shard(run: Run, analysis: PipelineTables) -> Iterator[Finding]:
    """Yield the finding that several hosts each read all data."""
    if len(run.hosts) < 2 or not analysis.pipelines_by_name:
        return
    types = {stage.type for pipeline in analysis.pipelines_by_name.values() for stage in pipeline.stages}
    if any(t.startswith(("Shard", "AutoShard", "DataService")) for t in types) or any(
        is_injected(t) and "shard" in t for t in types
    ):
        return
    yield Finding(
        id="no_shard",
        severity=Severity.POTENTIAL,
        sentence=f"{len(run.hosts)} hosts run input pipelines, and none of them shards its data.",
        action="Shard the list of files, as early as possible: .shard(num_workers, worker_index). Distributed datasets do it by themselves.",
        evidence=(Evidence("hosts without a shard stage", float(len(run.hosts)), Unit.COUNT, "pipelines"),),
        counter_evidence=("Hosts that train different models, or draw different random orders, need no shard.",),
    )

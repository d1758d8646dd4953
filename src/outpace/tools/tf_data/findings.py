"""Advice on the input pipeline, from what was executed rather than from what was written.

TensorFlow parallelises stateless maps and adds a prefetch by itself: the executed stages show it, so nothing is advised that happens already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from outpace.metrics.input.examples import BATCHES, MIXES
from outpace.metrics.input.segments import CHAIN, Pipeline, StageWork
from outpace.metrics.input.stage_labels import injected, location, stage_record
from outpace.metrics.program.budget import at_most
from outpace.metrics.program.counterfactual import moved, overlapped
from outpace.metrics.program.step_breakdown import StepBreakdown
from outpace.model import Category, Effort, Evidence, Finding, Severity, Threshold, Unit, humanize
from outpace.timeline import Run
from outpace.tools.tf_data.compute import Analysis
from outpace.tools.tf_data.context import MODERATE, SHARE, Context, has_cache
from outpace.tools.tf_data.saving import draws_unseen, fed_alike, repeats
from outpace.tools.tf_data.slow_stage import slow_stage, where_to_cache
from outpace.trace import dialect
from outpace.trace.algorithms import distinct

_BUFFER = Threshold(
    "large shuffle buffer", 100.0, Unit.COUNT, "MB; shuffling file names or records before decoding keeps it small"
)
_IDLES = 0.25  # of the busiest pipeline's time: a counter, or a validation's pipeline


def find(run: Run, analysis: Analysis, breakdown: StepBreakdown) -> Iterator[Finding]:
    """All findings about all pipelines."""
    busiest: dict[str, float] = {}
    alike: dict[tuple[str, ...], tuple[str, Pipeline]] = {}  # each epoch makes its pipeline anew: one of those speaks for all
    for (host, _), pipeline in analysis.named.items():
        busiest[host] = max(busiest.get(host, 0.0), _busy(pipeline))
        made = (host, *(stage.position for stage in pipeline.stages))
        if made not in alike or alike[made][1].calls < pipeline.calls:
            alike[made] = host, pipeline
    for host, pipeline in alike.values():
        mine = breakdown.whole.of("host", host)
        idles = _busy(pipeline) < _IDLES * busiest[host]  # what a step waits for is then another one
        if not mine["duration_ps"].sum() or not pipeline.segments or idles:
            continue
        steps, waits = (mine[name].astype(np.float64) for name in ("duration_ps", "input_ps"))
        context = Context(run, run.by_host[host], pipeline, steps, waits)
        yield from slow_stage(context)
        if context.severity is Severity.INFO:
            continue
        yield from _no_prefetch(context)
        yield from _no_cache(context)
        yield from _other_python(context)
        yield from _late_shuffle(context)
    yield from _no_shard(run, analysis)


def _busy(pipeline: Pipeline) -> float:
    """Busy time of the slowest segment over the capture, ps."""
    return pipeline.segments[0].busy * pipeline.calls if pipeline.segments else 0.0


def _no_prefetch(context: Context) -> Iterator[Finding]:
    """The training thread itself runs stages that work: nothing overlaps input and model."""
    segment = next((s for s in context.pipeline.segments if s.kind == CHAIN and s.boundary < 0), None)
    if segment is None or segment.busy < MODERATE.value * context.step:
        return
    yield Finding(
        id="no_prefetch",
        severity=Severity.MODERATE,
        sentence=f"Nothing is prefetched: the training thread itself runs {humanize(segment.busy, Unit.PS)} of the input pipeline per batch.",
        action="End the input pipeline with .prefetch(tf.data.AUTOTUNE).",
        evidence=(Evidence("busy time per batch on the training thread", segment.busy, Unit.PS, "segments"),),
        threshold=MODERATE,
        host=context.host,
        saving=at_most(
            min(
                overlapped(context.waits, context.steps),
                moved(context.run, context.host, context.share, segment.busy / context.step),
            ),
            Category.INPUT,
            assumes="if input and the rest of the step ran at the same time",
        ),
    )


def _no_cache(context: Context) -> Iterator[Finding]:
    """Expensive stages whose result could be kept: deterministic as far as the capture saw, and not cached."""
    if has_cache(context.pipeline) or not context.record.get("pipeline"):
        return
    slowest = context.pipeline.segments[0]
    for stage in context.pipeline.stages:
        noted = stage_record(stage.label, context.record)
        if noted.get("op") != "map" or context.of_arrays or repeats(stage, context.record) < 1:
            continue
        if draws_unseen(stage, context.record) or not fed_alike(context, stage):
            continue
        share = stage.work / max(slowest.work, 1)
        if share < SHARE.value:
            continue
        yield Finding(
            id="no_cache",
            severity=Severity.MODERATE,
            sentence=f"{context.called(stage)} computes the same result in every epoch, and nothing caches it.",
            action=f"{where_to_cache(context, stage)} Use .cache(filename) if memory is too small.",
            evidence=(Evidence("its share of the slowest segment's work", min(share, 1.0), Unit.FRACTION, "stages"),),
            threshold=SHARE,
            counter_evidence=("Helps from the second epoch on, and only if the files do not change.",),
            location=location(stage.label, context.record),
            host=context.host,
            saving=context.savings(stage),
            explains=("input_bound", "cpu_contention"),
            effort=Effort.SMALL,
        )


def _other_python(context: Context) -> Iterator[Finding]:
    """Python in stages other than the bottleneck."""
    slowest = context.pipeline.segments[0]
    for stage in context.pipeline.stages:
        share = stage.work / max(slowest.work, 1)
        if not (stage.python or stage.type == "Generator") or stage is context.pipeline.bottleneck or share < SHARE.value:
            continue
        yield Finding(
            id="python_in_pipeline",
            severity=Severity.MODERATE,
            sentence=f"{context.called(stage)} runs Python for every element: {share:.0%} of the slowest segment's work.",
            action="Use TensorFlow ops or files instead of from_generator, py_function and numpy_function.",
            evidence=(Evidence("its share of the slowest segment's work", min(share, 1.0), Unit.FRACTION, "stages"),),
            threshold=SHARE,
            location=location(stage.label, context.record),
            host=context.host,
        )


def _late_shuffle(context: Context) -> Iterator[Finding]:
    """A shuffle that keeps decoded elements, or whole batches, in its buffer."""
    stages = context.pipeline.stages
    for at, stage in enumerate(stages):
        if not stage.type.startswith("Shuffle"):
            continue
        batches = any(BATCHES.match(s.type) and _whole(stages, i, at) for i, s in enumerate(stages))
        megabytes = _buffered(context, stage)
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
            sentence=f"{context.called(stage)} shuffles {what}.",
            action="Shuffle file names or undecoded records, before map and batch.",
            evidence=(Evidence("MB in the shuffle buffer", megabytes, Unit.COUNT, "stages"),),
            threshold=_BUFFER,
            location=location(stage.label, context.record),
            host=context.host,
        )


def _whole(stages: Sequence[StageWork], at: int, above: int) -> bool:
    """Whether what a stage hands on reaches another one above it as it is: taken apart by none between."""
    while (at := stages[at].parent) >= 0:
        if at == above:
            return True
        if MIXES.match(stages[at].type):
            return False
    return False


def _buffered(context: Context, stage: StageWork) -> float:
    trace = context.timeline.trace
    stat = trace.stat(dialect.BUFFERED_MB)
    name = trace.name[stat.row]
    mine = [at for at in distinct(name).tolist() if trace.names[at].endswith(f"::{stage.type}")]
    values = stat.floats()[np.isin(name, mine)]
    return float(values.max()) if len(values) else 0.0


def _no_shard(run: Run, analysis: Analysis) -> Iterator[Finding]:
    """Several hosts that each read everything."""
    if len(run.hosts) < 2 or not analysis.named:
        return
    types = {stage.type for pipeline in analysis.named.values() for stage in pipeline.stages}
    if any(t.startswith(("Shard", "AutoShard", "DataService")) for t in types) or any(
        injected(t) and "shard" in t for t in types
    ):
        return
    yield Finding(
        id="no_shard",
        severity=Severity.POTENTIAL,
        sentence=f"{len(run.hosts)} hosts run input pipelines, and none of them shards its data.",
        action="Call .shard(num_workers, worker_index) on the list of files, as early as possible. Distributed datasets do it by themselves.",
        evidence=(Evidence("hosts without a shard stage", float(len(run.hosts)), Unit.COUNT, "pipelines"),),
        counter_evidence=("Hosts that train different models, or draw different random orders, need no shard.",),
    )

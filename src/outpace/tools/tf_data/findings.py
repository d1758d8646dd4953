"""Advice on the input pipeline, from what was executed rather than from what was written.

TensorFlow parallelises stateless maps and adds a prefetch by itself: the executed stages show it, so nothing is advised that happens already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.cpu_saturation import cpu_saturation
from outpace.metrics.segments import CHAIN, Pipeline, StageWork
from outpace.metrics.stage_labels import injected, location, source, stage_record
from outpace.metrics.step_breakdown import StepBreakdown
from outpace.model import Evidence, Finding, Interval, Severity, Threshold, Unit, bootstrap_saving, humanize
from outpace.timeline import Run
from outpace.timeline.run import Record
from outpace.timeline.steps import Array
from outpace.tools.tf_data.compute import Analysis, work

_XPROF = "XProf's input pipeline page"
_HIGH = Threshold("highly input-bound", 0.20, Unit.FRACTION, _XPROF)
_MODERATE = Threshold("moderately input-bound", 0.05, Unit.FRACTION, _XPROF)
_SHARE = Threshold("worth acting on", 0.20, Unit.FRACTION, "share of the slowest segment's work; less cannot free the pipeline")
_BUFFER = Threshold(
    "large shuffle buffer", 100.0, Unit.COUNT, "MB; shuffling file names or records before decoding keeps it small"
)
_CACHES = ("MemoryCache", "FileCache", "CacheDataset", "FileReader", "MemoryReader", "MemoryWriter", "FileWriter")
_INPUT_AND_COMPUTE = ("input_ps", "host_compute_ps")
_SEQUENTIAL = ("Map", "Interleave", "Filter")


@dataclass(frozen=True)
class _Context:
    """What all rules look at: one pipeline, how long its host's steps waited for it, and the saving if it were free."""

    run: Run
    host: str
    name: str
    pipeline: Pipeline
    steps: Array
    waits: Array
    computes: Array

    @property
    def step(self) -> float:
        return float(self.steps.mean())

    @property
    def share(self) -> float:
        return float(self.waits.mean()) / self.step if self.step else 0.0

    @property
    def severity(self) -> Severity:
        return (
            Severity.HIGH
            if self.share >= _HIGH.value
            else Severity.MODERATE
            if self.share >= _MODERATE.value
            else Severity.INFO
        )

    @property
    def record(self) -> Record:
        return self.run.record(self.host)

    def called(self, stage: StageWork) -> str:
        where = source(stage.label, self.record)
        return f"{where} ({stage.type})" if where else stage.type


def find(run: Run, analysis: Analysis, breakdown: StepBreakdown) -> Iterator[Finding]:
    """All findings about all pipelines."""
    whole = breakdown.whole
    for (host, name), pipeline in analysis.named.items():
        mine = whole["host"] == host
        if not mine.any() or not pipeline.segments:
            continue
        steps = whole["duration_ps"][mine].astype(np.float64)
        context = _Context(run, host, name, pipeline, steps, *(whole[c][mine].astype(np.float64) for c in _INPUT_AND_COMPUTE))
        yield from _slow_stage(context)
        if context.share < _MODERATE.value:
            continue
        yield from _no_prefetch(context)
        yield from _no_cache(context)
        yield from _other_python(context)
        yield from _late_shuffle(context)
    yield from _no_shard(run, analysis)


def _savings(context: _Context, stage: StageWork) -> dict[str, Any]:
    """Step time saved if the stage cost nothing, where steps wait for input: all of the wait, or what the next slowest segment leaves of it."""
    if context.share < _MODERATE.value:
        return {}
    bound = (
        "if this stage cost nothing: the whole wait for input (95 % interval over the steps), or what is left of it when the next slowest "
        "segment of the pipeline becomes the limit; on saturated cores at most also the time that the model waits for one of them"
    )
    remaining = _busy_without(context.pipeline, stage)
    least = bootstrap_saving(np.minimum(context.waits, np.maximum(context.steps - remaining, 0.0)), context.steps, bound)
    most = bootstrap_saving(np.minimum(context.waits + _relief(context), context.steps), context.steps, bound)
    time, share = (Interval(low.low, high.high, low.unit, bound) for low, high in zip(least, most, strict=True))
    if time.width > time.middle:  # so wide that it could hardly be wrong: no prediction
        return {}
    return {"saving": time, "saving_fraction": share}


def _relief(context: _Context) -> Array:
    """Host compute time per step that comes from having too few cores for input and model together, ps."""
    if context.run.has_device:
        return np.zeros(len(context.waits))
    table = cpu_saturation(context.run)
    saturation = float(np.nanmax(np.append(table["saturation"][table["host"] == context.host], 1.0)))
    return context.computes * (1 - 1 / max(saturation, 1.0))


def _busy_without(pipeline: Pipeline, stage: StageWork) -> float:
    """Busy time per step of the slowest segment if one stage cost nothing, ps."""
    at = pipeline.stages.index(stage)
    left = []
    for segment in pipeline.segments:
        mine = 0
        if at in segment.stages:
            mine = stage.own + stage.handing if segment.kind == CHAIN else stage.function
        left.append((segment.work - mine) / segment.threads / max(pipeline.calls, 1))
    return max(left, default=0.0)


def _slow_stage(context: _Context) -> Iterator[Finding]:
    stage, segment = context.pipeline.bottleneck, context.pipeline.segments[0]
    if stage is None:
        return
    busy = segment.busy
    called = context.called(stage)
    share = work(stage) / max(segment.work, 1)
    waiting = (
        f"{context.share:.0%} of the step waits for input" if context.share >= 0.005 else "hardly any step waits for input"
    )
    sentence = f"{called} limits the input pipeline: {_why(stage, context)}; {waiting}."
    if context.severity is Severity.INFO:
        sentence = f"The input pipeline keeps up ({waiting}); its slowest stage is {called}."
    yield Finding(
        id="slow_stage",
        severity=context.severity,
        sentence=sentence,
        action=_action(stage, context),
        evidence=(
            Evidence("share of the step that waits for input", context.share, Unit.FRACTION, "steps"),
            Evidence("busy time per step of the slowest segment", busy, Unit.PS, "segments"),
            Evidence("this stage's share of that segment's work", min(share, 1.0), Unit.FRACTION, "stages"),
        ),
        threshold=_HIGH if context.severity is Severity.HIGH else _MODERATE,
        counter_evidence=_against(context, stage),
        location=location(stage.label, context.record),
        host=context.host,
        knobs=_knobs(stage),
        **_savings(context, stage),
    )


def _why(stage: StageWork, context: _Context) -> str:
    each = humanize(work(stage) / max(stage.calls, 1), Unit.PS)
    if stage.type == "Generator":
        return f"a Python generator takes {each} per element, one at a time"
    if stage.python:
        return f"it runs Python for every element ({each} each), one at a time because of the interpreter lock"
    if stage.type in _SEQUENTIAL:
        return f"it handles one element at a time ({each} each){_not_parallel(stage, context)}"
    if stage.asynchronous and stage.function:
        return (
            f"its function takes {each} per call on {stage.function_threads} threads, most of it in {stage.top_op or 'its ops'}"
        )
    return f"it takes {each} per call on one thread"


def _not_parallel(stage: StageWork, context: _Context) -> str:
    reasons = stage_record(stage.label, context.record).get("stateful")
    if reasons:
        return f"; TensorFlow did not make it parallel because of {', '.join(map(str, reasons))}"
    return "; TensorFlow makes only stateless functions parallel by itself" if stage.type == "Map" else ""


def _action(stage: StageWork, context: _Context) -> str:
    library = stage_record(stage.label, context.record).get("library")
    if library:
        return (
            f"{str(library).capitalize()} built this stage itself, from the arrays that it was given: use a larger batch, or hand over a "
            "tf.data.Dataset of your own that ends in .batch(...).prefetch(tf.data.AUTOTUNE)."
        )
    cache = "" if _has_cache(context.pipeline) else " If its result is the same in every epoch, put .cache() after it."
    if stage.type == "Generator":
        return (
            "Write the data once as TFRecord files and read them with TFRecordDataset, or build the dataset from files or arrays "
            f"instead of from_generator.{cache}"
        )
    if stage.python:
        return f"Replace py_function / numpy_function by TensorFlow ops (tf.io, tf.image), which run without the interpreter lock.{cache}"
    if stage.type in _SEQUENTIAL:
        return f"Set num_parallel_calls=tf.data.AUTOTUNE on it (random draws then come in another order).{cache}"
    if stage.asynchronous and stage.function:
        return f"It is parallel already: make {stage.top_op or 'its function'} cheaper (smaller images, decode once), or use more cores.{cache}"
    return f"Move work out of it, or run several copies of the pipeline with interleave over shards.{cache}"


def _knobs(stage: StageWork) -> tuple[str, ...]:
    if stage.python or stage.type == "Generator":
        return ("cache", "native_ops", "tfrecord")
    return ("parallel_map", "cache") if stage.type in _SEQUENTIAL else ("cache", "cheaper_decode")


def _against(context: _Context, stage: StageWork) -> tuple[str, ...]:
    notes = []
    if not context.run.has_device:
        notes.append(
            "On a CPU-only host the model needs the same cores: a parallel stage speeds up less than one that is gone (cached)."
        )
    remaining = _busy_without(context.pipeline, stage)
    if remaining > 0.5 * context.pipeline.segments[0].busy:
        notes.append(f"Without it the next slowest segment still needs {humanize(remaining, Unit.PS)} per step.")
    if len(context.waits) < 10:
        notes.append(f"Only {len(context.waits)} steps were captured.")
    return tuple(notes)


def _has_cache(pipeline: Pipeline) -> bool:
    return any(stage.type.startswith(_CACHES) for stage in pipeline.stages)


def _no_prefetch(context: _Context) -> Iterator[Finding]:
    """The training thread itself runs stages that work: nothing overlaps input and model."""
    segment = next((s for s in context.pipeline.segments if s.kind == CHAIN and s.boundary < 0), None)
    if segment is None or segment.busy < _MODERATE.value * context.step:
        return
    yield Finding(
        id="no_prefetch",
        severity=Severity.MODERATE,
        sentence=f"The training loop itself runs {humanize(segment.busy, Unit.PS)} of the pipeline per step: nothing is prefetched.",
        action="End the pipeline with .prefetch(tf.data.AUTOTUNE).",
        evidence=(Evidence("busy time per step on the training thread", segment.busy, Unit.PS, "segments"),),
        threshold=_MODERATE,
        host=context.host,
        knobs=("prefetch",),
    )


def _no_cache(context: _Context) -> Iterator[Finding]:
    """Expensive stages whose result could be kept: deterministic as far as the capture saw, and not cached."""
    if _has_cache(context.pipeline) or not context.record.get("pipeline"):
        return
    slowest = context.pipeline.segments[0]
    for stage in context.pipeline.stages:
        noted = stage_record(stage.label, context.record)
        if (
            noted.get("op") != "map"
            or noted.get("library")
            or any("andom" in str(reason) for reason in noted.get("stateful") or ())
        ):
            continue
        share = work(stage) / max(slowest.work, 1)
        if share < _SHARE.value:
            continue
        yield Finding(
            id="no_cache",
            severity=Severity.MODERATE,
            sentence=f"{context.called(stage)} computes the same result again in every epoch, and nothing caches it.",
            action="Put .cache() right after it if the elements fit into memory (or .cache(filename)), before any random step.",
            evidence=(Evidence("its share of the slowest segment's work", min(share, 1.0), Unit.FRACTION, "stages"),),
            threshold=_SHARE,
            counter_evidence=("Helps from the second epoch on, and only if the files do not change.",),
            location=location(stage.label, context.record),
            host=context.host,
            knobs=("cache",),
            **_savings(context, stage),
        )


def _other_python(context: _Context) -> Iterator[Finding]:
    """Python in stages other than the bottleneck."""
    slowest = context.pipeline.segments[0]
    for stage in context.pipeline.stages:
        share = work(stage) / max(slowest.work, 1)
        if not (stage.python or stage.type == "Generator") or stage is context.pipeline.bottleneck or share < _SHARE.value:
            continue
        yield Finding(
            id="python_in_pipeline",
            severity=Severity.MODERATE,
            sentence=f"{context.called(stage)} runs Python for every element, {share:.0%} of the slowest segment's work.",
            action="Use TensorFlow ops or files instead of from_generator, py_function and numpy_function.",
            evidence=(Evidence("its share of the slowest segment's work", min(share, 1.0), Unit.FRACTION, "stages"),),
            threshold=_SHARE,
            location=location(stage.label, context.record),
            host=context.host,
            knobs=("native_ops", "tfrecord"),
        )


def _late_shuffle(context: _Context) -> Iterator[Finding]:
    """A shuffle that keeps decoded elements, or whole batches, in its buffer."""
    stages = context.pipeline.stages
    for at, stage in enumerate(stages):
        if not stage.type.startswith("Shuffle"):
            continue
        below = [s for i, s in enumerate(stages) if _is_below(context.pipeline, i, at)]
        batches = any(s.type.startswith(("Batch", "PaddedBatch", "ParallelBatch", "MapAndBatch")) for s in below)
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
            knobs=("shuffle_early",),
        )


def _is_below(pipeline: Pipeline, at: int, above: int) -> bool:
    while at >= 0:
        at = pipeline.stages[at].parent
        if at == above:
            return True
    return False


def _buffered(context: _Context, stage: StageWork) -> float:
    timeline = next(t for t in context.run.hosts if t.host == context.host)
    stat = timeline.trace.stat("buffered_bytes_MB")
    rows = timeline.trace.named(lambda n: n.endswith(f"::{stage.type}"))
    values = stat.floats()[np.isin(stat.row, rows)]
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
        action="Call .shard(num_workers, worker_index) on the list of files, as early as possible; distributed datasets do it by themselves.",
        evidence=(Evidence("hosts without a shard stage", float(len(run.hosts)), Unit.COUNT, "pipelines"),),
        counter_evidence=("Hosts that train different models, or draw other random orders, need no shard.",),
        knobs=("shard",),
    )

"""Advice on the input pipeline, from what was executed rather than from what was written.

TensorFlow parallelises stateless maps and adds a prefetch by itself: the executed stages show it, so nothing is advised that happens already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from outpace.metrics import cpu_saturation
from outpace.metrics.between import between
from outpace.metrics.budget import at_most
from outpace.metrics.python_threads import busiest_line
from outpace.metrics.segments import CHAIN, Pipeline, StageWork
from outpace.metrics.stage_labels import called, injected, location, source, stage_record
from outpace.metrics.step_breakdown import StepBreakdown
from outpace.model import OUTSIDE, Category, Certainty, Effort, Evidence, Finding, Saving, Severity, Threshold, Unit, humanize
from outpace.model.units import counted
from outpace.timeline import Run
from outpace.tools.tf_data.compute import Analysis
from outpace.tools.tf_data.saving import Waiting, busy_without, draws_unseen, fed_alike, is_below, kept, repeats, saving
from outpace.trace import dialect

_XPROF = "XProf's input pipeline page"
_HIGH = Threshold("highly input-bound", 0.20, Unit.FRACTION, _XPROF)
_MODERATE = Threshold("moderately input-bound", 0.05, Unit.FRACTION, _XPROF)
_SHARE = Threshold("worth acting on", 0.20, Unit.FRACTION, "share of the slowest segment's work; less cannot free the pipeline")
_BUFFER = Threshold(
    "large shuffle buffer", 100.0, Unit.COUNT, "MB; shuffling file names or records before decoding keeps it small"
)
_CACHES = ("MemoryCache", "FileCache", "CacheDataset", "FileReader", "MemoryReader", "MemoryWriter", "FileWriter")
_MOSTLY_WAITS = 0.5  # of a saving, for it to be as likely as the wait is sure
_WORKS = 0.05  # cores: below, a thread was only met by chance
_IDLES = 0.25  # of the busiest pipeline's time: a counter, or a validation's pipeline
_SEQUENTIAL = ("Map", "Interleave", "Filter")
_MOST, _STARTING = 0.5, 0.75  # of a function's time, in one op, and in none
_OF_IMAGES = re.compile(r"Decode(?:Jpeg|Png|Image|Bmp|Gif|AndCropJpeg)|Resize|CropAndResize")


class _Context(Waiting):
    """What all rules look at, and how bad it is."""

    @property
    def host(self) -> str:
        return self.timeline.host

    @cached_property
    def outside(self) -> float:
        """Share of the time from the first step to the last that waits for input between the steps: marks that leave out the input."""
        gaps = between(self.run).get(self.host)
        return gaps.shares[Category.INPUT] if gaps is not None and gaps.often else 0.0

    @cached_property
    def severity(self) -> Severity:
        """By the share of the step that waits for input, or that comes back at least if the slowest stage's results are kept; where the cores
        are all busy, by half of what may come back."""
        most = self.savings(self.pipeline.bottleneck) if self.pipeline.bottleneck else None
        least = 0.0 if most is None else max(most.low, most.high / 2 if self.saturated else 0.0)
        share = max(self.share, self.outside, least)
        return Severity.HIGH if share >= _HIGH.value else Severity.MODERATE if share >= _MODERATE.value else Severity.INFO

    @cached_property
    def saturated(self) -> bool:
        """Whether input and model want the same cores."""
        rows = (
            [r for r in cpu_saturation.cpu_saturation(self.run).records() if r["host"] == self.host]
            if not self.run.has_device
            else []
        )
        return any(cpu_saturation.shares_cores(row) for row in rows)

    def savings(self, stage: StageWork) -> Saving | None:
        """What keeping a stage's results saves, where that is worth the work."""
        if self.outside > self.share:
            part = min(1.0, stage.work / max(self.pipeline.segments[0].work, 1)) if self.pipeline.segments else 1.0
            return at_most(part * self.outside, OUTSIDE, assumes="if no time between the steps waited for it")
        found = saving(self, stage)
        if found is not None and not stage.function and stage.type != "Generator":  # batches and slices: only their wait can go
            found = replace(found, low=min(found.low, self.share), high=min(found.high, self.share))
        return found if found is not None and found.high >= _MODERATE.value else None

    def called(self, stage: StageWork) -> str:
        return called(stage.type, source(stage.label, self.record))

    def batched_behind(self, stage: StageWork) -> bool:
        """Whether its elements are put together to batches after it."""
        while (at := stage.parent) >= 0:
            stage = self.pipeline.stages[at]
            if "Batch" in stage.type:
                return True
        return False

    def map_of(self, stage: StageWork) -> str:
        """The call that holds a stage's function: of a map that was fused with its batch, the map alone."""
        if not stage.type.startswith("MapAndBatch"):
            return self.called(stage)
        return called("Map", source(stage.label, self.record).partition(" + ")[0])


def find(run: Run, analysis: Analysis, breakdown: StepBreakdown) -> Iterator[Finding]:
    """All findings about all pipelines."""
    whole = breakdown.whole
    for (host, _), pipeline in analysis.named.items():
        mine = whole["host"] == host
        if not mine.any() or not pipeline.segments or _idles(pipeline, analysis):
            continue
        steps = whole["duration_ps"][mine].astype(np.float64)
        timeline = next(timeline for timeline in run.hosts if timeline.host == host)
        context = _Context(run, timeline, pipeline, steps, whole["input_ps"][mine].astype(np.float64))
        yield from _slow_stage(context)
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


def _idles(pipeline: Pipeline, analysis: Analysis) -> bool:
    """Whether another pipeline of the host is far busier: what a step waits for is then that one."""
    return _busy(pipeline) < _IDLES * max(_busy(p) for (host, _), p in analysis.named.items() if host == pipeline.host)


def _slow_stage(context: _Context) -> Iterator[Finding]:
    stage, segment = context.pipeline.bottleneck, context.pipeline.segments[0]
    if stage is None:
        return
    busy = segment.busy
    name = context.called(stage)
    share = stage.work / max(segment.work, 1)
    waiting = (
        f"{context.share:.0%} of the step waits for input" if context.share >= 0.005 else "hardly any step waits for input"
    )
    sentence = f"{name} limits the input pipeline: {_why(stage, context)}; {waiting}."
    if context.outside > context.share:
        waiting = f"{context.outside:.0%} of the time waits for input between the steps"
        sentence = f"{name} limits the input pipeline: {_why(stage, context)}; {waiting}."
    elif context.share < _MODERATE.value:
        sentence = f"{name} competes with the model for cores: {_why(stage, context)}; {waiting}."
    if context.severity is Severity.INFO:
        sentence = f"The input pipeline keeps up ({waiting}); its slowest stage is {name}."
    yield Finding(
        id="slow_stage",
        severity=context.severity,
        sentence=sentence,
        action=_action(stage, context),
        evidence=(
            Evidence("share of the step that waits for input", context.share, Unit.FRACTION, "overview.steps"),
            Evidence("busy time per batch of the slowest segment", busy, Unit.PS, "segments"),
            Evidence("this stage's share of that segment's work", min(share, 1.0), Unit.FRACTION, "stages"),
        ),
        threshold=_HIGH if context.severity is Severity.HIGH else _MODERATE,
        counter_evidence=_against(context, stage),
        location=_place(context, stage),
        host=context.host,
        saving=None if context.severity is Severity.INFO else context.savings(stage),
        explains=("input_bound", "cpu_contention", "time_outside_steps")
        if context.outside > context.share
        else ("input_bound", "cpu_contention"),
        certainty=_certainty(context, stage),
    )


def _python_line(context: _Context, stage: StageWork) -> tuple[str, str]:
    """(line, function) of the user's Python that a stage spends its time in, where threads were sampled."""
    if not stage.python and stage.type != "Generator":
        return "", ""
    lines = [busiest_line(context.run, context.host, native=native) for native in (True, False)]
    source, function, cores = max(lines, key=lambda line: line[2])
    return (source, function) if cores >= _WORKS else ("", "")


def _place(context: _Context, stage: StageWork) -> str:
    """Where the work stands: the line of Python that takes it, or the line that made the stage."""
    return _python_line(context, stage)[0] or location(stage.label, context.record)


def _certainty(context: _Context, stage: StageWork) -> Certainty:
    """A wait is measured; what the model gets back of the cores is only possible."""
    saving = context.savings(stage)
    mostly_waits = saving is None or max(context.share, context.outside) >= _MOSTLY_WAITS * saving.high
    return Certainty.LIKELY if mostly_waits else Certainty.POSSIBLE


def _why(stage: StageWork, context: _Context) -> str:
    each = humanize(stage.work / max(stage.calls, 1), Unit.PS)
    one = "batch" if "Batch" in stage.type else "element"
    line, function = _python_line(context, stage)
    most = f", most of it at {line} in {function}()" if line else ""
    if stage.type == "Generator":
        return f"a Python generator takes {each} per element, sequentially{most}"
    if stage.python:
        return f"it runs Python for every element ({each} per {one}), serialised by the interpreter lock (GIL){most}"
    if _sequential(stage):
        return f"it runs sequentially ({each} per {one}){_not_parallel(stage, context)}"
    if stage.asynchronous and stage.function:
        return f"its function takes {each} per {one} on {stage.function_threads} threads{_spent(stage)}"
    return f"it takes {each} per call on one thread"


def _spent(stage: StageWork) -> str:
    """What most of a function's time goes to."""
    if stage.starting_share >= _STARTING:
        return f", {stage.starting_share:.0%} of it to call it and to start its ops"
    return f", most of it in {stage.top_op}" if stage.top_share >= _MOST else ""


def _less_work(stage: StageWork, context: _Context) -> str:
    """How the function of a parallel stage takes less time."""
    what = context.map_of(stage)
    if stage.starting_share >= _STARTING and context.batched_behind(stage):
        whole = " (tf.io.parse_example takes a batch of records)" if stage.top_op.startswith("ParseExample") else ""
        return f"Call the function of {what} once per batch, where it can take one{whole}: move it behind .batch(). Or use more cores."
    smaller = " (smaller images, decode once)" if _OF_IMAGES.search(stage.top_op) else ""
    return f"Make {stage.top_op or 'the function'} in {what} cheaper{smaller}, or use more cores."


def _sequential(stage: StageWork) -> bool:
    """Whether its function runs for one element after the other: also in a map that was fused with its batch, which then is asynchronous."""
    return stage.type in _SEQUENTIAL or (stage.type.startswith("MapAndBatch") and stage.function_threads == 1)


def _not_parallel(stage: StageWork, context: _Context) -> str:
    reasons = stage_record(stage.label, context.record).get("stateful")
    if reasons:
        return f"; TensorFlow did not parallelise it because of {', '.join(map(str, reasons))}"
    return "; TensorFlow auto-parallelises only stateless functions" if "Map" in stage.type else ""


def _action(stage: StageWork, context: _Context) -> str:
    library = stage_record(stage.label, context.record).get("library")
    if library and (stage.python or stage.type == "Generator"):
        return (
            "Prepare batches in several workers (keras.utils.PyDataset(workers=4, use_multiprocessing=True)). Or make the line that takes "
            "the time cheaper, or cache its results where they do not change."
        )
    if library:
        return (
            "Use a larger batch, or pass a tf.data.Dataset of your own that ends in .batch(...).prefetch(tf.data.AUTOTUNE). "
            f"{str(library).capitalize()} built this stage itself, from the arrays that it was given."
        )
    cache = (
        "" if _has_cache(context.pipeline) or not fed_alike(context, stage) else _where_to_cache(repeats(stage, context.record))
    )
    if stage.type == "Generator":
        return (
            "Write the data once as TFRecord files and read them with TFRecordDataset. Or build the dataset from files or arrays "
            f"instead of from_generator.{cache}"
        )
    if stage.python:
        return f"Replace py_function and numpy_function with TensorFlow ops (tf.io, tf.image), which run in parallel, without the GIL.{cache}"
    if stage.type == "Filter":
        return (
            f"Compute what {context.called(stage)} tests in a map with num_parallel_calls=tf.data.AUTOTUNE before it, or filter once and save "
            f"what is left: a filter tests one element after the other.{cache}"
        )
    if _sequential(stage):
        return f"Set num_parallel_calls=tf.data.AUTOTUNE on {context.map_of(stage)}; random draws then come in another order.{cache}"
    if stage.asynchronous and stage.function:
        return f"{_less_work(stage, context)} The stage is parallel already.{cache}"
    return (
        f"Move work out of {context.called(stage)}, or run several copies of the pipeline with interleave over shards.{cache}"
    )


def _where_to_cache(share: float) -> str:
    if share == 1:
        return " If its result is the same in every epoch, put .cache() after it."
    if share < _SHARE.value:
        return ""
    return f" {int(share * 100)}% of its work is the same in every epoch: put that part into a map of its own, and .cache() between the two."


def _against(context: _Context, stage: StageWork) -> tuple[str, ...]:
    notes = []
    if not context.run.has_device:
        notes.append("On a CPU-only host, input and model share the cores: parallelising a stage saves less than caching it.")
    remaining = busy_without(context.pipeline, kept(context, stage))
    if remaining > 0.5 * context.pipeline.segments[0].busy:
        notes.append(f"Without this stage, the next slowest segment still needs {humanize(remaining, Unit.PS)} per batch.")
    if context.severity is not Severity.INFO and not context.savings(stage):
        notes.append("The profile gives no close estimate of the saving; 'outpace tune --only-limits SCRIPT' measures it.")
    if len(context.waits) < 10:
        notes.append(f"Only {counted(len(context.waits), 'step was', 'steps were')} captured.")
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
        sentence=f"Nothing is prefetched: the training thread itself runs {humanize(segment.busy, Unit.PS)} of the input pipeline per batch.",
        action="End the input pipeline with .prefetch(tf.data.AUTOTUNE).",
        evidence=(Evidence("busy time per batch on the training thread", segment.busy, Unit.PS, "segments"),),
        threshold=_MODERATE,
        host=context.host,
    )


def _no_cache(context: _Context) -> Iterator[Finding]:
    """Expensive stages whose result could be kept: deterministic as far as the capture saw, and not cached."""
    if _has_cache(context.pipeline) or not context.record.get("pipeline"):
        return
    slowest = context.pipeline.segments[0]
    for stage in context.pipeline.stages:
        noted = stage_record(stage.label, context.record)
        if noted.get("op") != "map" or noted.get("library") or repeats(stage, context.record) < 1:
            continue
        if draws_unseen(stage, context.record) or not fed_alike(context, stage):
            continue
        share = stage.work / max(slowest.work, 1)
        if share < _SHARE.value:
            continue
        yield Finding(
            id="no_cache",
            severity=Severity.MODERATE,
            sentence=f"{context.called(stage)} computes the same result in every epoch, and nothing caches it.",
            action=f"Put .cache() right after {context.called(stage)}, before any random stage. Use .cache(filename) if memory is too small.",
            evidence=(Evidence("its share of the slowest segment's work", min(share, 1.0), Unit.FRACTION, "stages"),),
            threshold=_SHARE,
            counter_evidence=("Helps from the second epoch on, and only if the files do not change.",),
            location=location(stage.label, context.record),
            host=context.host,
            saving=context.savings(stage),
            explains=("input_bound", "cpu_contention"),
            effort=Effort.SMALL,
        )


def _other_python(context: _Context) -> Iterator[Finding]:
    """Python in stages other than the bottleneck."""
    slowest = context.pipeline.segments[0]
    for stage in context.pipeline.stages:
        share = stage.work / max(slowest.work, 1)
        if not (stage.python or stage.type == "Generator") or stage is context.pipeline.bottleneck or share < _SHARE.value:
            continue
        yield Finding(
            id="python_in_pipeline",
            severity=Severity.MODERATE,
            sentence=f"{context.called(stage)} runs Python for every element: {share:.0%} of the slowest segment's work.",
            action="Use TensorFlow ops or files instead of from_generator, py_function and numpy_function.",
            evidence=(Evidence("its share of the slowest segment's work", min(share, 1.0), Unit.FRACTION, "stages"),),
            threshold=_SHARE,
            location=location(stage.label, context.record),
            host=context.host,
        )


def _late_shuffle(context: _Context) -> Iterator[Finding]:
    """A shuffle that keeps decoded elements, or whole batches, in its buffer."""
    stages = context.pipeline.stages
    for at, stage in enumerate(stages):
        if not stage.type.startswith("Shuffle"):
            continue
        below = [s for i, s in enumerate(stages) if is_below(stages, i, at)]
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
        )


def _buffered(context: _Context, stage: StageWork) -> float:
    timeline = context.timeline
    stat = timeline.trace.stat(dialect.BUFFERED_MB)
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
        action="Call .shard(num_workers, worker_index) on the list of files, as early as possible. Distributed datasets do it by themselves.",
        evidence=(Evidence("hosts without a shard stage", float(len(run.hosts)), Unit.COUNT, "pipelines"),),
        counter_evidence=("Hosts that train different models, or draw different random orders, need no shard.",),
    )

# SPDX-License-Identifier: Apache-2.0
"""The finding on the stage that limits an input pipeline: why it takes its time, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from outpace.metrics.facts.input_pipelines import StageWork
from outpace.metrics.savings.best_case import format_contention
from outpace.metrics.stage_labels import find_stage_record, stage_location
from outpace.metrics.views.thread_lines import find_busiest_line
from outpace.model import Certainty, Evidence, Finding, Saving, Severity, Unit, humanize
from outpace.model.text import format_largest_part, is_majority
from outpace.model.units import format_count
from outpace.tools.tf_data.cache_saving import (
    compute_busy_without,
    compute_cached_shares,
    find_upstream_stages,
    has_stable_input,
    is_shuffled,
    repeatable_share,
)
from outpace.tools.tf_data.context import CALL_COSTS, HIGHLY_BOUND, MIN_SHARE, MODERATELY_BOUND, PipelineContext, is_sequential

_MOSTLY_WAITS = 0.5  # minimum share of a saving that is measured waiting, for the saving to be as likely as the wait is certain
_WORKS = 0.05  # minimum cores of a sampled line: fewer may be chance


def iter_slow_stage_findings(context: PipelineContext) -> Iterator[Finding]:
    """Yield the finding on the stage with most work in the slowest segment."""
    stage, segment = context.pipeline.bottleneck, context.pipeline.segments[0]
    if stage is None:
        return
    busy = segment.busy_ps
    name = "Keras' own adapter of arrays" if context.is_from_arrays else context.format_stage(stage)
    action, saving = _advice(stage, context)
    share = stage.work_ps / max(segment.work_ps, 1)
    waiting = (
        f"{context.wait_share:.0%} of the step waits for input"
        if context.wait_share >= 0.005
        else "hardly any step waits for input"
    )
    if context.outside_share > context.wait_share:
        waiting = f"{context.outside_share:.0%} of the time waits for input between the steps"
    waits = max(context.wait_share, context.outside_share) >= MODERATELY_BOUND.value
    does = "limits the input pipeline" if waits else "competes with the model for cores"
    slows = format_contention(context.run, context.host)
    slowdown = f", and beside it {slows}" if slows else ""
    sentence = f"{name} {does}: {_why(stage, context)}{slowdown}{_not_parallel(stage, context)}; {waiting}."
    if context.severity is Severity.INFO:
        sentence = f"The input pipeline keeps up ({waiting}); its slowest stage is {name}."
    yield Finding(
        id="slow_stage",
        severity=context.severity,
        sentence=sentence,
        action=action,
        evidence=(
            Evidence("share of the step that waits for input", context.wait_share, Unit.FRACTION, "overview.steps"),
            Evidence("busy time per batch of the slowest segment", busy, Unit.PS, "segments"),
            Evidence("this stage's share of that segment's work", min(share, 1.0), Unit.FRACTION, "stages"),
        ),
        threshold=HIGHLY_BOUND if context.severity is Severity.HIGH else MODERATELY_BOUND,
        counter_evidence=_counter_evidence(context, stage, saving),
        location=find_location(context, stage),
        host=context.host,
        saving=None if context.severity is Severity.INFO else saving,
        explains=(
            "input_bound",
            "cpu_contention",
            "input_stalls",
            *("time_outside_steps",) * (context.outside_share > context.wait_share),
        ),
        certainty=_certainty(context, saving),
    )


def _python_line(context: PipelineContext, stage: StageWork) -> tuple[str, str]:
    """Return (source line, its part of the Python in words) of the user's Python in which a stage
    spends its time, where threads were sampled; else ("", "").
    """
    if not stage.runs_python and stage.type != "Generator":
        return "", ""
    lines = [find_busiest_line(context.run, context.host, native=native) for native in (True, False)]
    source, function, cores, every = max(lines, key=lambda line: line[2])
    return (source, format_largest_part(f"at {source} in {function}()", cores, every)) if cores >= _WORKS else ("", "")


def find_location(context: PipelineContext, stage: StageWork) -> str:
    """Return the source line of a stage's work: the line of Python that takes the time, or the line
    that built the stage.
    """
    return _python_line(context, stage)[0] or stage_location(stage.label, context.record)


def _certainty(context: PipelineContext, saving: Saving | None) -> Certainty:
    """Return how certain a saving is: the wait is measured, but the cores that the model gets back
    are only possible.
    """
    mostly_waits = saving is None or max(context.wait_share, context.outside_share) >= _MOSTLY_WAITS * saving.high
    return Certainty.LIKELY if mostly_waits else Certainty.POSSIBLE


def _why(stage: StageWork, context: PipelineContext) -> str:
    """Return why a stage takes its time, as part of a sentence."""
    duration = humanize(stage.work_ps / max(stage.calls, 1), Unit.PS)
    one = "batch" if "Batch" in stage.type else "element"
    python_line = _python_line(context, stage)[1]
    most = f", {python_line}" * bool(python_line)
    if stage.type == "Generator":
        return f"a Python generator takes {duration} per element, sequentially{most}"
    if stage.runs_python:
        return f"it runs Python for every element ({duration} per {one}), serialised by the interpreter lock (GIL){most}"
    if is_sequential(stage):
        return f"its function runs sequentially ({duration} per {one}{_format_top_op(stage)})"
    if stage.is_async and stage.function_ps:
        return f"its function takes {duration} per {one} on {stage.function_threads} threads{_format_top_op(stage)}"
    return f"it takes {duration} per call on one thread"


def _format_top_op(stage: StageWork) -> str:
    """Return what most of a function's time goes to, as the end of a sentence; "" where nothing
    takes most of it.
    """
    if stage.call_overhead_share >= CALL_COSTS:
        return f", {stage.call_overhead_share:.0%} of it to call it and to start its ops"
    return f", {format_largest_part(f'in {stage.top_op}', stage.top_share, 1.0)}" if is_majority(stage.top_share, 1.0) else ""


def _not_parallel(stage: StageWork, context: PipelineContext) -> str:
    if stage.runs_python or not is_sequential(stage):
        return ""
    reasons = find_stage_record(stage.label, context.record).get("stateful")
    if reasons:
        return f"; TensorFlow did not parallelise it because of {', '.join(map(str, reasons))}"
    return "; TensorFlow auto-parallelises only stateless functions" if "Map" in stage.type else ""


def _advice(stage: StageWork, context: PipelineContext) -> tuple[str, Saving | None]:
    """Return (what to do, the upper bound of what that saves). The saving of a cache is stated in
    the sentence that advises the cache.
    """
    from outpace.tools.tf_data.stage_actions import StageKind, advise_change, stage_kind  # most pipelines keep up

    action, saving, is_final = advise_change(stage, context, _python_line(context, stage)[0])
    share = repeatable_share(stage, context.record)
    if is_final or context.has_cached_results(stage) or not has_stable_input(context, stage) or share < MIN_SHARE.value:
        return action, saving
    cache_saving = context.cache_saving(stage)
    # The cache comes first where the cores are busy, since work that is moved to them takes its
    # time there, and where the stage has them already.
    if cache_saving is not None and (stage_kind(stage) is StageKind.PARALLEL or not (saving and saving.high)):
        return f"{_cache(context, stage, share)} Or: {action[:1].lower()}{action[1:]}", cache_saving
    ends = (
        dict.fromkeys(f"{end:.0%}" for end in (cache_saving.low, cache_saving.high))
        if cache_saving and cache_saving.is_predicted
        else ()
    )
    much = f" That saves {' to '.join(ends)} of the step." if ends else ""
    return f"{action} {_cache(context, stage, share)}{much}", saving


def _cache(context: PipelineContext, stage: StageWork, share: float) -> str:
    if share == 1:
        where = render_cache_advice(context, stage)
        return f"Cache the stage's result, if that is the same in every epoch: {where[:1].lower()}{where[1:]}"
    return f"Cache the part that stays the same, {int(share * 100)}% of its work: put it into a map of its own, and .cache() between the two."


def render_cache_advice(context: PipelineContext, stage: StageWork) -> str:
    """Return where to place a cache of a stage's results so that it does not change the training,
    and is read: behind a shuffle it would repeat one order for ever, and behind a repeat that never
    ends nothing would read it.
    """
    called, other = context.format_stage(stage), context.find_cache_before(stage)
    earlier = context.format_stage(other) if other is not None else ""
    new_file = ", with a new file name (what the old file holds would be read instead)" if _is_in_file(other) else ""
    upstream = find_upstream_stages(context.pipeline, stage)
    shuffled, repeated = is_shuffled(context.pipeline, stage), any("Repeat" in other.type for other in upstream)
    if not shuffled and not repeated:
        if not earlier:
            return f"Put .cache() right after {called}, before any random stage."
        return f"Move {earlier} behind {called}, whose results it does not keep, before any random stage{new_file}."
    if shuffled and (library := find_stage_record(stage.label, context.record).get("library")):
        return (
            f"Let {str(library).capitalize()} make the data set with shuffle=False, batch_size=None, and go on with .cache(), then .shuffle() "
            "and .batch(): behind a shuffle, a cache would give the first epoch's order and batches in all epochs."
        )
    before = " and ".join(["the shuffle"] * shuffled + [".repeat()"] * repeated)
    reason = (
        "behind the shuffle, a cache would give the first epoch's order and batches in all epochs"
        if shuffled
        else "behind .repeat(), a cache would never be complete"
    )
    cache = f"{earlier} between the two{new_file}" if earlier else "put .cache() between the two"
    return f"Move {context.format_map(stage)} before {before}, and {cache}: {reason}."


def _is_in_file(cache: StageWork | None) -> bool:
    """Whether a cache keeps its elements in a file."""
    return cache is not None and cache.type.startswith(("File", "Snapshot"))


def _counter_evidence(context: PipelineContext, stage: StageWork, saving: Saving | None) -> tuple[str, ...]:
    notes = []
    remaining = compute_busy_without(context.pipeline, compute_cached_shares(context, stage))
    if remaining > 0.5 * context.pipeline.segments[0].busy_ps:
        notes.append(f"Without this stage, the next slowest segment still needs {humanize(remaining, Unit.PS)} per batch.")
    if context.severity is not Severity.INFO and not (saving and saving.high):
        notes.append("The profile gives no close estimate of the saving; 'outpace tune --only-limits SCRIPT' measures it.")
    if len(context.wait_durations) < 10:
        notes.append(f"Only {format_count(len(context.wait_durations), 'step was', 'steps were')} captured.")
    return tuple(notes)

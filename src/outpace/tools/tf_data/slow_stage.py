"""The stage that limits an input pipeline: why it takes its time, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from outpace.metrics.input.segments import StageWork
from outpace.metrics.input.stage_labels import location, stage_record
from outpace.metrics.machine.own_best import held_up
from outpace.metrics.program.program import program
from outpace.metrics.python.threads import busiest_line
from outpace.model import Certainty, Evidence, Finding, Saving, Severity, Unit, humanize
from outpace.model.text import is_most, largest_part
from outpace.model.units import counted
from outpace.tools.tf_data.context import HIGH, MODERATE, SHARE, Context, has_cache
from outpace.tools.tf_data.saving import busy_without, fed_alike, kept, repeats, shuffled

_MOSTLY_WAITS = 0.5  # of a saving, for it to be as likely as the wait is sure
_WORKS = 0.05  # cores: below, a thread was only met by chance
_SEQUENTIAL = ("Map", "Interleave", "Filter")
_STARTING = 0.5  # of a function's time, in no op
_ONE_EACH = re.compile(r"(?:Parallel)?Map")  # stages that make one element of each
_OF_IMAGES = re.compile(r"Decode(?:Jpeg|Png|Image|Bmp|Gif|AndCropJpeg)|Resize|CropAndResize")
_CHEAPER = "make the line that takes the time cheaper, or cache its results where they do not change."
_WORKERS = f"Prepare batches in several workers (keras.utils.PyDataset(workers=4, use_multiprocessing=True)). Or {_CHEAPER}"
_ROOM = 0.5  # of what a stage costs, that idle cores must take for more workers to be worth it
_ADAPTER = "Keras built the pipeline itself, from the arrays that it was given."


def slow_stage(context: Context) -> Iterator[Finding]:
    """The finding on the stage with most work in the slowest segment."""
    stage, segment = context.pipeline.bottleneck, context.pipeline.segments[0]
    if stage is None:
        return
    busy = segment.busy
    name = "Keras' own adapter of arrays" if context.of_arrays else context.called(stage)
    action, saving = _advice(stage, context)
    share = stage.work / max(segment.work, 1)
    waiting = (
        f"{context.share:.0%} of the step waits for input" if context.share >= 0.005 else "hardly any step waits for input"
    )
    if context.outside > context.share:
        waiting = f"{context.outside:.0%} of the time waits for input between the steps"
    waits = max(context.share, context.outside) >= MODERATE.value
    does = "limits the input pipeline" if waits else "competes with the model for cores"
    slows = held_up(context.run, context.host)
    beside = f", and beside it {slows}" if slows else ""
    sentence = f"{name} {does}: {_why(stage, context)}{beside}{_not_parallel(stage, context)}; {waiting}."
    if context.severity is Severity.INFO:
        sentence = f"The input pipeline keeps up ({waiting}); its slowest stage is {name}."
    yield Finding(
        id="slow_stage",
        severity=context.severity,
        sentence=sentence,
        action=action,
        evidence=(
            Evidence("share of the step that waits for input", context.share, Unit.FRACTION, "overview.steps"),
            Evidence("busy time per batch of the slowest segment", busy, Unit.PS, "segments"),
            Evidence("this stage's share of that segment's work", min(share, 1.0), Unit.FRACTION, "stages"),
        ),
        threshold=HIGH if context.severity is Severity.HIGH else MODERATE,
        counter_evidence=_against(context, stage, saving),
        location=place(context, stage),
        host=context.host,
        saving=None if context.severity is Severity.INFO else saving,
        explains=(
            "input_bound",
            "cpu_contention",
            "input_stalls",
            *("time_outside_steps",) * (context.outside > context.share),
        ),
        certainty=_certainty(context, saving),
    )


def _python_line(context: Context, stage: StageWork) -> tuple[str, str]:
    """(line, in words how much of the Python it is) of the user's Python that a stage spends its time in, where threads were sampled."""
    if not stage.python and stage.type != "Generator":
        return "", ""
    lines = [busiest_line(context.run, context.host, native=native) for native in (True, False)]
    source, function, cores, every = max(lines, key=lambda line: line[2])
    return (source, largest_part(f"at {source} in {function}()", cores, every)) if cores >= _WORKS else ("", "")


def place(context: Context, stage: StageWork) -> str:
    """Where the work stands: the line of Python that takes it, or the line that made the stage."""
    return _python_line(context, stage)[0] or location(stage.label, context.record)


def _certainty(context: Context, saving: Saving | None) -> Certainty:
    """A wait is measured; what the model gets back of the cores is only possible."""
    mostly_waits = saving is None or max(context.share, context.outside) >= _MOSTLY_WAITS * saving.high
    return Certainty.LIKELY if mostly_waits else Certainty.POSSIBLE


def _why(stage: StageWork, context: Context) -> str:
    each = humanize(stage.work / max(stage.calls, 1), Unit.PS)
    one = "batch" if "Batch" in stage.type else "element"
    told = _python_line(context, stage)[1]
    most = f", {told}" * bool(told)
    if stage.type == "Generator":
        return f"a Python generator takes {each} per element, sequentially{most}"
    if stage.python:
        return f"it runs Python for every element ({each} per {one}), serialised by the interpreter lock (GIL){most}"
    if _sequential(stage):
        return f"its function runs sequentially ({each} per {one}{_spent(stage)})"
    if stage.asynchronous and stage.function:
        return f"its function takes {each} per {one} on {stage.function_threads} threads{_spent(stage)}"
    return f"it takes {each} per call on one thread"


def _spent(stage: StageWork) -> str:
    """What most of a function's time goes to."""
    if stage.starting_share >= _STARTING:
        return f", {stage.starting_share:.0%} of it to call it and to start its ops"
    return f", {largest_part(f'in {stage.top_op}', stage.top_share, 1.0)}" if is_most(stage.top_share, 1.0) else ""


def _less_work(stage: StageWork, context: Context) -> str:
    """How the function of a parallel stage takes less time."""
    what = context.map_of(stage)
    images = "smaller images" if has_cache(context.pipeline) else "smaller images, decode once"
    smaller = f" ({images})" if _OF_IMAGES.search(stage.top_op) else ""
    return f"Make {stage.top_op or 'the function'} in {what} cheaper{smaller}, or use more cores."


def _per_batch(stage: StageWork, context: Context) -> str:
    """What to do where calling its function for each element takes more than the ops in it; "" where it does not."""
    if stage.starting_share < _STARTING or not _ONE_EACH.match(stage.type) or not context.batched_behind(stage):
        return ""
    whole = " (tf.io.parse_example takes a batch of records)" if stage.top_op.startswith("ParseExample") else ""
    drawn = " What it draws at random may then be one draw for the batch." if stage.draws else ""
    return f"Call the function of {context.map_of(stage)} once per batch, where it can take one{whole}: move it behind .batch().{drawn}"


def _sequential(stage: StageWork) -> bool:
    """Whether its function runs for one element after the other: also in a map that was fused with its batch, which then is asynchronous."""
    return stage.type in _SEQUENTIAL or (stage.type.startswith("MapAndBatch") and stage.function_threads == 1)


def _not_parallel(stage: StageWork, context: Context) -> str:
    if stage.python or not _sequential(stage):
        return ""
    reasons = stage_record(stage.label, context.record).get("stateful")
    if reasons:
        return f"; TensorFlow did not parallelise it because of {', '.join(map(str, reasons))}"
    return "; TensorFlow auto-parallelises only stateless functions" if "Map" in stage.type else ""


def _advice(stage: StageWork, context: Context) -> tuple[str, Saving | None]:
    """What to do, and what that saves at most. What a cache saves stands beside the words that ask for one."""
    if context.of_arrays:
        return _for_arrays(context), context.without(stage)
    library = stage_record(stage.label, context.record).get("library")
    if library and (stage.python or stage.type == "Generator"):
        workers, less = context.parallel(stage), context.without(stage)
        if less is None or (workers is not None and workers.high >= _ROOM * less.high):
            return _WORKERS, workers
        return f"{_CHEAPER[:1].upper()}{_CHEAPER[1:]} The cores are busy: more workers wait for them.", less
    action, saving = _change(stage, context)
    share = repeats(stage, context.record)
    if has_cache(context.pipeline) or not fed_alike(context, stage) or share < SHARE.value:
        return action, saving
    kept = context.savings(stage)
    if kept is not None and not (saving and saving.high):  # busy cores: what is moved to them takes its time there
        return f"{_cache(context, stage, share)} Or: {action[:1].lower()}{action[1:]}", kept
    ends = dict.fromkeys(f"{end:.0%}" for end in (kept.low, kept.high)) if kept and kept.predicted else ()
    much = f" That saves {' to '.join(ends)} of the step." if ends else ""
    return f"{action} {_cache(context, stage, share)}{much}", saving


def _change(stage: StageWork, context: Context) -> tuple[str, Saving | None]:
    called = context.called(stage)
    if stage.type == "Generator":
        return (
            "Write the data once as TFRecord files and read them with TFRecordDataset. Or build the dataset from files or arrays "
            "instead of from_generator."
        ), context.without(stage)
    if stage.python:
        return (
            "Replace py_function and numpy_function with TensorFlow ops (tf.io, tf.image), which run in parallel, without the GIL."
        ), context.without(stage)
    if once := _per_batch(stage, context):
        return once, context.without(stage)
    if stage.type == "FlatMap":
        return (
            "Make its elements without flat_map, which builds a data set for each: a map that slices or frames whole tensors (tf.signal.frame, "
            "keras.utils.timeseries_dataset_from_array for windows)."
        ), context.without(stage)
    if stage.type == "Filter":
        return (
            f"Compute what {called} tests in a map with num_parallel_calls=tf.data.AUTOTUNE before it, or filter once and save "
            "what is left: a filter tests one element after the other."
        ), context.parallel(stage)
    if _sequential(stage):
        return (
            f"Set num_parallel_calls=tf.data.AUTOTUNE on {context.map_of(stage)}; random draws then come in another order."
        ), context.parallel(stage)
    if stage.asynchronous and stage.function:
        return f"{_less_work(stage, context)} The stage is parallel already.", context.without(stage)
    return (f"Move work out of {called}, or run several copies of the pipeline with interleave over shards."), context.without(
        stage
    )


def _for_arrays(context: Context) -> str:
    if program(context.run).predicts:
        return f"Use a larger batch, which calls it less often: predict(..., batch_size=1024). {_ADAPTER}"
    return (
        "Pass a tf.data.Dataset of your own, which ends in .batch(...).prefetch(tf.data.AUTOTUNE). Or use a larger batch_size, which changes "
        f"the training. {_ADAPTER}"
    )


def _cache(context: Context, stage: StageWork, share: float) -> str:
    if share == 1:
        where = where_to_cache(context, stage)
        return f"If its result is the same in every epoch, {where[:1].lower()}{where[1:]}"
    return f"{int(share * 100)}% of its work is the same in every epoch: put that part into a map of its own, and .cache() between the two."


def where_to_cache(context: Context, stage: StageWork) -> str:
    """Where a cache of a stage's results changes nothing of the training: behind a shuffle it would repeat one order for ever."""
    called = context.called(stage)
    if not shuffled(context.pipeline, stage):
        return f"Put .cache() right after {called}, before any random stage."
    if library := stage_record(stage.label, context.record).get("library"):
        return (
            f"Let {str(library).capitalize()} build it with shuffle=False and batch_size=None, and go on with .cache(), then .shuffle() and "
            ".batch(): behind a shuffle, a cache would give the first epoch's order and batches in all epochs."
        )
    return (
        f"Move {context.map_of(stage)} before the shuffle, and put .cache() between the two: behind the shuffle, a cache would give "
        "the first epoch's order and batches in all epochs."
    )


def _against(context: Context, stage: StageWork, saving: Saving | None) -> tuple[str, ...]:
    notes = []
    remaining = busy_without(context.pipeline, kept(context, stage))
    if remaining > 0.5 * context.pipeline.segments[0].busy:
        notes.append(f"Without this stage, the next slowest segment still needs {humanize(remaining, Unit.PS)} per batch.")
    if context.severity is not Severity.INFO and not (saving and saving.high):
        notes.append("The profile gives no close estimate of the saving; 'outpace tune --only-limits SCRIPT' measures it.")
    if len(context.waits) < 10:
        notes.append(f"Only {counted(len(context.waits), 'step was', 'steps were')} captured.")
    return tuple(notes)

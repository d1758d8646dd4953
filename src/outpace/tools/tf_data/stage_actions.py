# SPDX-License-Identifier: Apache-2.0
"""Actions on the stage that limits an input pipeline, and what each one needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.metrics.actions.table import Action, build_action, choose_action
from outpace.metrics.facts.input_pipelines import StageWork
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.stage_labels import find_stage_record
from outpace.metrics.views.thread_lines import find_call_below
from outpace.model import Saving
from outpace.tools.tf_data.context import CALL_COSTS, PipelineContext, has_new_iterators, is_sequential

_ONE_EACH = compile_lazily(r"(?:Parallel)?Map")  # stages that make one element from each element
_OF_IMAGES = compile_lazily(r"Decode(?:Jpeg|Png|Image|Bmp|Gif|AndCropJpeg)|Resize|CropAndResize")
_ROOM = 0.5  # minimum saving by more workers, as a share of what the stage costs, for more workers to be worth it
_ADAPTER = "Keras built the pipeline itself, from the arrays that it was given."


class StageKind(Enum):
    """What kind of stage it is, by its type and what its function runs."""

    GENERATOR = "a Python generator"
    PYTHON = "a function that runs Python"
    FLAT_MAP = "flat_map"
    FILTER = "a filter"
    SEQUENTIAL = "a function of TensorFlow's ops that runs for one element after the other"
    PARALLEL = "such a function that runs for several at once"
    OTHER = "a stage without a function"


class Precondition(Enum):
    """What must hold for an action, with the evidence."""

    FROM_ARRAYS = "Keras built the pipeline, from arrays"
    BUILT_ANEW = "each step makes a new iterator of the pipeline"
    PREDICTS = "the steps are predictions"
    READS = "its Python mostly reads, by the calls sampled below its line"
    BY_LIBRARY = "its Python is a library's data set"
    WORKERS_HELP = "running on all cores saves at least half of what leaving it out saves"
    CALL_COSTS = "calling its function takes more time than the ops in it, and its elements are batched behind it"


@dataclass(frozen=True)
class Subject:
    """A stage in its pipeline. `line` is the line of Python that takes its time; "" for none."""

    stage: StageWork
    context: PipelineContext
    line: str


_EVIDENCE: Mapping[Precondition, Callable[[Subject], bool]] = {
    Precondition.FROM_ARRAYS: lambda here: here.context.is_from_arrays,
    Precondition.BUILT_ANEW: lambda here: has_new_iterators(here.context.timeline),
    Precondition.PREDICTS: lambda here: find_workload(here.context.run).is_inference,
    Precondition.READS: lambda here: _mostly_reads(here),
    Precondition.BY_LIBRARY: lambda here: _is_by_library(here),
    Precondition.WORKERS_HELP: lambda here: _is_by_library(here) and _do_workers_help(here),
    Precondition.CALL_COSTS: lambda here: (
        here.stage.call_overhead_share >= CALL_COSTS
        and bool(_ONE_EACH.match(here.stage.type))
        and here.context.is_batched_after(here.stage)
    ),
}


def stage_kind(stage: StageWork) -> StageKind:
    """Return the kind of a stage."""
    by_type = {"Generator": StageKind.GENERATOR, "FlatMap": StageKind.FLAT_MAP, "Filter": StageKind.FILTER}
    if stage.runs_python and stage.type != "Generator":
        return StageKind.PYTHON
    if stage.type in by_type:
        return by_type[stage.type]
    if is_sequential(stage):
        return StageKind.SEQUENTIAL
    return StageKind.PARALLEL if stage.is_async and stage.function_ps else StageKind.OTHER


def _mostly_reads(here: Subject) -> bool:
    if not here.line:
        return False
    from outpace.metrics.actions.python_lines import CallKind, classify_call  # most pipelines run no Python

    return classify_call(*find_call_below(here.context.run, here.context.host, here.line)) is CallKind.READING


def _is_by_library(here: Subject) -> bool:
    has_python = here.stage.runs_python or here.stage.type == "Generator"
    return has_python and bool(find_stage_record(here.stage.label, here.context.record).get("library"))


def _do_workers_help(here: Subject) -> bool:
    workers, less = here.context.parallel_saving(here.stage), here.context.removal_saving(here.stage)
    return less is None or (workers is not None and workers.high >= _ROOM * less.high)


def _says(text: str) -> Callable[[Subject], str]:
    """Return a renderer of one text; `{map}` and `{stage}` stand for the stage in words."""
    return lambda here: text.format(map=here.context.format_map(here.stage), stage=here.context.format_stage(here.stage))


def _render_reading(here: Subject) -> str:
    from outpace.metrics.actions.python_lines import PYTHON_ACTIONS, CallKind
    from outpace.metrics.actions.python_lines import Precondition as LinePrecondition

    holds = frozenset((LinePrecondition.CALLS_NO_STEP, LinePrecondition.FEEDS_STEP))
    return choose_action(PYTHON_ACTIONS, CallKind.READING, holds).render(here.line, find_workload(here.context.run))


def _render_per_batch(here: Subject) -> str:
    whole = " (tf.io.parse_example takes a batch of records)" if here.stage.top_op.startswith("ParseExample") else ""
    drawn = " What it draws at random may then be one draw for the batch." if here.stage.draws_random else ""
    called = here.context.format_map(here.stage)
    return f"Call {called} once per batch, where its function can take one{whole}: move it behind .batch().{drawn}"


def _render_less_work(here: Subject) -> str:
    images = "smaller images" if here.context.has_cached_results(here.stage) else "smaller images, decode once"
    smaller = f" ({images})" if _OF_IMAGES.search(here.stage.top_op) else ""
    what = here.context.format_map(here.stage)
    return f"Make {here.stage.top_op or 'the function'} in {what} cheaper{smaller}, or use more cores. The stage is parallel already."


def _row(
    name: str, kinds: str, render: str | Callable[[Subject], str], *preconditions: Precondition
) -> Action[StageKind, Precondition, [Subject]]:
    """Return a row of the table (`build_action`), with a text or what renders one."""
    return build_action(StageKind, name, kinds, _says(render) if isinstance(render, str) else render, *preconditions)


STAGE_ACTIONS: tuple[Action[StageKind, Precondition, [Subject]], ...] = (
    _row(
        "call_model",
        "",
        "Call model(x) or train_on_batch(x, y) for single batches, or give all rows to one call: each predict(), evaluate() and fit() "
        f"builds a pipeline of its own. {_ADAPTER}",
        Precondition.FROM_ARRAYS,
        Precondition.BUILT_ANEW,
    ),
    _row(
        "predict_larger_batches",
        "",
        f"Use a larger batch, which calls it less often: predict(..., batch_size=1024). {_ADAPTER}",
        Precondition.FROM_ARRAYS,
        Precondition.PREDICTS,
    ),
    _row(
        "pass_data_set",
        "",
        "Pass a tf.data.Dataset of your own, which ends in .batch(...).prefetch(tf.data.AUTOTUNE). Or use a larger batch_size, which changes "
        f"the training. {_ADAPTER}",
        Precondition.FROM_ARRAYS,
    ),
    _row("read_once", "", _render_reading, Precondition.READS),
    _row(
        "use_workers",
        "",
        "Prepare batches in several workers (keras.utils.PyDataset(workers=4, use_multiprocessing=True)). Or make the line that takes the "
        "time cheaper, or cache its results where they do not change.",
        Precondition.BY_LIBRARY,
        Precondition.WORKERS_HELP,
    ),
    _row(
        "make_line_cheaper",
        "",
        "Make the line that takes the time cheaper, or cache its results where they do not change. The cores are busy: more workers wait for "
        "them.",
        Precondition.BY_LIBRARY,
    ),
    _row(
        "write_records",
        "GENERATOR",
        "Write the data once as TFRecord files, and read them with TFRecordDataset. Or build the dataset from files or arrays instead of "
        "from_generator.",
    ),
    _row(
        "use_ops",
        "PYTHON",
        "Replace py_function and numpy_function with TensorFlow ops (tf.io, tf.image), which run in parallel, without the GIL.",
    ),
    _row("call_once_per_batch", "", _render_per_batch, Precondition.CALL_COSTS),
    _row(
        "slice_whole_tensors",
        "FLAT_MAP",
        "Make elements without flat_map, which builds a data set for each: a map that slices or frames whole tensors (tf.signal.frame, "
        "keras.utils.timeseries_dataset_from_array for windows).",
    ),
    _row(
        "test_in_map",
        "FILTER",
        "Compute the test in a parallel map, before {stage} (num_parallel_calls=tf.data.AUTOTUNE), or filter once and save what is left: a "
        "filter tests one element after the other.",
    ),
    _row(
        "run_in_parallel",
        "SEQUENTIAL",
        "Set num_parallel_calls=tf.data.AUTOTUNE on {map}; random draws then come in another order.",
    ),
    _row("do_less", "PARALLEL", _render_less_work),
    _row("move_work", "", "Move work out of {stage}, or run several copies of the pipeline with interleave over shards."),
)
"""Actions on a stage in order: what names a cause comes before what fits any stage of a kind."""

_ON_ALL_CORES = frozenset(("use_workers", "test_in_map", "run_in_parallel"))
_INSTEAD_OF_CACHES = frozenset(
    ("call_model", "predict_larger_batches", "pass_data_set", "read_once", "use_workers", "make_line_cheaper")
)


def find_preconditions(here: Subject) -> frozenset[Precondition]:
    """Return the preconditions that hold for a stage."""
    return frozenset(need for need, holds in _EVIDENCE.items() if holds(here))


def advise_change(stage: StageWork, context: PipelineContext, line: str) -> tuple[str, Saving | None, bool]:
    """Return (what to do about a stage, the upper bound of what that saves, whether nothing is to
    be said of a cache beside it).

    line: the line of Python that takes the stage's time; "" for none
    """
    here = Subject(stage, context, line)
    action = choose_action(STAGE_ACTIONS, stage_kind(stage), find_preconditions(here))
    saving = context.parallel_saving(stage) if action.name in _ON_ALL_CORES else context.removal_saving(stage)
    return action.render(here), saving, action.name in _INSTEAD_OF_CACHES

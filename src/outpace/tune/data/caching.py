# SPDX-License-Identifier: Apache-2.0
"""Where a cache can stand: behind a stage whose elements are the same in every epoch, with shuffle
and repeat moved behind the cache.

A shuffle or repeat permutes and repeats positions and never looks at elements, so it may change
places with a stage that makes one element of one element: the same order comes out, bit by bit,
while the elements themselves are computed once.

A traced function is split (`split`) into a prefix that depends on its argument alone, which can be
cached, and the rest. A forward slice of its graph: an operation belongs to the rest when it is
impure (random, variable, a Python function that did not repeat itself), reads a captured resource
that may change, or depends on such an operation. The tensors on the border are what the prefix
returns and the rest takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outpace.capture import stateful
from outpace.frameworks.tensorflow import INPUT_STRUCTURE
from outpace.model.errors import RebuildError
from outpace.tune.data import functions
from outpace.tune.data.classes import construct, reused_functions
from outpace.tune.data.tree import Pipeline, Stage, describe
from outpace.tune.purity import evidence, traced
from outpace.tune.purity.evidence import constant, why_not_constant

_AHEAD = ("prefetch", "with_options")
MOVABLE = ("shuffle", "repeat", *_AHEAD)  # they hand elements over as they are
_BATCHES = ("batch", "padded_batch", "ragged_batch", "bucket_by_sequence_length", "group_by_window", "rebatch")
_STOP = ("take", "take_while", "choose_from_datasets")
_READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset", "make_csv_dataset")


@dataclass(frozen=True, eq=False)
class Place:
    """A place for a cache: behind `stage`, computed from `base` on; `moved` are put behind the
    cache, the last one first.
    """

    stage: Stage
    base: Stage | None
    moved: tuple[Stage, ...]


def place_behind(stage: Stage, one_to_one: bool, order: bool = True) -> Place:
    """The place right behind a stage; a `one_to_one` stage (map) lets shuffle and repeat pass.
    order: of the elements, too, in each epoch.

    Raises RebuildError with the stage that stands in the way.
    """
    moved: list[Stage] = []
    below = stage.inputs[0] if len(stage.inputs) == 1 else None
    while one_to_one and below is not None and below.op in MOVABLE and not all(map(constant, below.walk())):
        moved.append(below)
        below = below.inputs[0]
    for start in stage.inputs if not one_to_one else [below] if below is not None else []:
        culprit = next((s for s in start.walk() if not constant(s, order)), None)
        if culprit is not None:
            raise RebuildError(why_not_constant(culprit))
    return Place(stage, below, tuple(moved))


def worth_caching(stage: Stage) -> bool:
    """Whether anything is computed or read up to here, since the last cache: slices of memory need
    none.
    """
    if stage.op == "cache":
        return False
    return bool(stage.functions) or stage.op in _READERS or any(map(worth_caching, stage.inputs))


def cut_short(pipeline: Pipeline, stage: Stage) -> Stage | None:
    """A stage behind this one that stops before its end: a cache that is never read whole is never
    used.
    """
    behind = [
        s for s in pipeline.stages() if s.dataset is not stage.dataset and any(i.dataset is stage.dataset for i in s.walk())
    ]
    return next((s for s in behind if s.op in _STOP), None)


def cached_before(pipeline: Pipeline, stage: Stage) -> Stage | None:
    """A cache that stands at or behind a stage already."""
    caches = [s for s in pipeline.find("cache") if any(inner.dataset is stage.dataset for inner in s.walk())]
    return caches[0] if caches else None


def to_cache(place: Place, prefix: Any = None) -> Any:
    """The data set whose elements the cache keeps: the stage (with `prefix` for its function) over
    the base.
    """
    if prefix is None and not place.moved:
        return place.stage.dataset
    if place.base is None:
        raise RebuildError(f"{place.stage.title} has no single input to compute from.")
    with reused_functions():
        return construct(place.stage.dataset, [place.base.dataset], **({"map_func": prefix} if prefix is not None else {}))


def best_place(pipeline: Pipeline, order: bool = True) -> tuple[Stage, Place]:
    """The last stage whose elements are the same in every epoch, in the same `order` or in any, as
    far as it is known and seen, and cost something. Raises RebuildError with the reason otherwise.
    """
    reasons = []
    for stage in [each for each in pipeline.spine() if each.op not in MOVABLE] if order else _elements_first(pipeline):
        if not constant(stage, order):
            reasons.append(why_not_constant(stage))
            continue
        stopped = cut_short(pipeline, stage)
        if stopped is not None:
            reasons.append(f"{stopped.title} may stop before the cache behind {stage.title} is whole.")
            continue
        cached = cached_before(pipeline, stage)
        if cached is not None:
            raise RebuildError(f"The pipeline is cached already, by {cached.title}.")
        if not worth_caching(stage):
            raise RebuildError(
                reasons[0] if reasons else "Nothing is computed or read in the pipeline: its elements are in memory already."
            )
        try:
            place = place_behind(stage, stage.op == "map", order)
            repeats(stage, to_cache(place), order)
            return stage, place
        except RebuildError as error:
            reasons.append(str(error))
    raise RebuildError(reasons[0] if reasons else "There is no stage to cache.")


def _elements_first(pipeline: Pipeline) -> list[Stage]:
    """Stages behind which something can be written, those of single elements first: what shuffles
    and batches behind a cache there does so anew in each epoch. Of what a library builds, that is
    the end.
    """
    spine = pipeline.spine()
    ends = [stage for behind, stage in zip([None, *spine], spine, strict=False) if not _within(stage, behind)]
    return sorted(ends, key=lambda stage: stage.op in (*MOVABLE, *_BATCHES))


def end_of_call(pipeline: Pipeline, stage: Stage) -> Stage:
    """The end of the library's call that made a stage, where what that makes behind it only hands
    elements on as they are; else the stage.
    """
    spine = pipeline.spine()
    at = spine.index(stage)
    while at and spine[at - 1].op in _AHEAD and _within(spine[at], spine[at - 1]):
        at -= 1
    return spine[at]


def _within(stage: Stage, behind: Stage | None) -> bool:
    """Whether a stage and the one behind it come of the same call of a library's function."""
    one, other = stage.record, behind.record if behind is not None else None
    if one is None or other is None or one.library is None:
        return False
    return (one.library, one.file, one.line) == (other.library, other.file, other.line)


def repeats(stage: Stage, kept: Any, order: bool = True) -> str:
    """That the Python functions in what is to be cached give the same twice, as half a sentence.
    Raises RebuildError where they do not.
    """
    return evidence.shown(stage.dataset, kept, describe(kept).calls, order)


_IDLE = {"Placeholder", "Identity", "NoOp", "Const"}
_UNCACHEABLE = ("resource", "variant")


@dataclass(frozen=True, eq=False)
class Split:
    """The part of a function that may be cached, traced, and what decides where it ends: `work`
    counts its operations (moves and constants excluded), `causes` are the types of the impure
    operations of the rest.
    """

    prefix: Any
    work: int
    causes: tuple[str, ...]


def split(wrapper: Any) -> Split:
    """Split a traced function, whose Python functions were seen (`evidence.see`).

    Raises RebuildError when nothing, or everything, of it depends on the argument alone."""
    graph = wrapper.function.graph
    definition = graph.as_graph_def()
    dirty, causes = _dirty(wrapper, definition)
    if not dirty:
        raise RebuildError("The whole function depends on its argument alone: cache after it instead of splitting it.")
    border, clean = _border(wrapper, dirty)
    work = [op.name for op in graph.get_operations() if op.name in clean and op.type not in _IDLE]
    if not work:
        raise RebuildError(f"Nothing of the function could be cached: all of it depends on {', '.join(causes)}.")
    for tensor in border:
        if tensor.dtype.name in _UNCACHEABLE:
            raise RebuildError(
                f"The function hands a {tensor.dtype.name} ({tensor.name}) from one part to the other, which cannot be cached."
            )
    prefix = _prefix(wrapper, definition, border, dirty)
    return Split(prefix, len(work), causes)


def _dirty(wrapper: Any, definition: Any) -> tuple[set[str], tuple[str, ...]]:
    """Names of the operations that must run for every element anew, and the types that make them
    so. Operations come in topological order. Automatic control dependencies tie every returned
    Identity to every stateful operation, and stateful operations to each other: an Identity and a
    Python function are clean when their values are.
    """
    library = {function.signature.name: function for function in definition.library.function}
    arguments = {tensor.op.name for tensor in functions.flat_arguments(wrapper)}
    clean = evidence.clean(wrapper)
    filled_once = traced.constant_tables(wrapper)
    captured = {
        inner.op.name
        for inner, outer in zip(_captures(wrapper), wrapper.function.captured_inputs, strict=True)
        if outer.dtype.name in _UNCACHEABLE and id(outer) not in filled_once
    }
    dirty: set[str] = set(captured)
    causes = {"captured variable"} if captured else set()
    for op in wrapper.function.graph.get_operations():
        if op.name in arguments or op.name in captured:
            continue
        own = traced.impure(op, library, clean)
        behind = any(i.op.name in dirty for i in op.inputs)
        free = op.type == "Identity" or traced.calls_clean(op.node_def, clean)  # waits for others only by construction
        ordered = not free and any(control.name in dirty for control in op.control_inputs)
        if own or behind or ordered:
            dirty.add(op.name)
            causes |= {op.type} if own and op.type not in stateful.HARMLESS_OPS else set()
    return dirty, tuple(sorted(causes))


def _border(wrapper: Any, dirty: set[str]) -> tuple[list[Any], set[str]]:
    """Clean tensors that the rest or the result reads, and the clean operations that depend on the
    argument (constants are simply made on both sides).
    """
    graph = wrapper.function.graph
    from_argument = {tensor.op.name for tensor in functions.flat_arguments(wrapper)}
    for op in graph.get_operations():
        if op.name not in dirty and any(i.op.name in from_argument for i in op.inputs):
            from_argument.add(op.name)
    clean = {name for name in from_argument if name not in dirty}
    border: list[Any] = []
    readers = [i for op in graph.get_operations() if op.name not in clean for i in op.inputs]
    for tensor in [*readers, *graph.outputs]:
        if tensor.op.name in clean and all(tensor is not known for known in border):
            border.append(tensor)
    return border, clean


def _prefix(wrapper: Any, definition: Any, border: list[Any], dirty: set[str]) -> Any:
    stripped = _without_control(definition, dirty)
    pruned = _pruned(stripped, [tensor.op.name for tensor in border])
    arguments = functions.flat_arguments(wrapper)

    def body(flat: list[Any]) -> Any:
        feeds = [(tensor.name, value) for tensor, value in zip(arguments, flat, strict=True)]
        results = functions.imported(wrapper, pruned, feeds, border)
        return tuple(results) if len(results) != 1 else results[0]

    return functions.made(wrapper, INPUT_STRUCTURE.of(wrapper), body)


def _without_control(definition: Any, names: set[str]) -> Any:
    """A copy in which no operation waits for one of `names`; a NoOp only groups such waits."""
    copy = type(definition)()
    copy.CopyFrom(definition)
    for node in copy.node:
        if node.name not in names:
            kept = [name for name in node.input if not (name.startswith("^") and name[1:] in names)]
            del node.input[:]
            node.input.extend(kept)
    return copy


def _pruned(definition: Any, fetches: list[str]) -> Any:
    """The operations that the fetched ones need, with the whole function library (the prefix's
    calls and the suffix's).
    """
    nodes = {node.name: node for node in definition.node}
    needed: set[str] = set()
    todo = list(fetches)
    while todo:
        name = todo.pop()
        if name in nodes and name not in needed:
            needed.add(name)
            todo += [text.removeprefix("^").split(":")[0] for text in nodes[name].input]
    pruned = type(definition)()
    pruned.node.extend(node for node in definition.node if node.name in needed)
    pruned.library.CopyFrom(definition.library)
    pruned.versions.CopyFrom(definition.versions)
    return pruned


def _captures(wrapper: Any) -> list[Any]:
    graph = wrapper.function.graph
    return list(graph.inputs[len(graph.inputs) - len(wrapper.function.captured_inputs) :])

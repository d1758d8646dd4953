"""Where a cache can stand: behind a stage whose elements are the same in every epoch, with shuffle and repeat moved behind the cache.

A shuffle or repeat permutes and repeats positions and never looks at elements, so it may change places with a stage that makes one
element of one element: the same order comes out, bit by bit, while the elements themselves are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data.classes import construct
from outpace.tune.data.rebuild import rebuild, reused_functions
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.purity.stages import constant, why_not_constant

MOVABLE = ("shuffle", "repeat", "prefetch", "with_options")  # they hand elements over as they are
_STOP = ("take", "take_while", "choose_from_datasets")
_READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset", "make_csv_dataset")


@dataclass(frozen=True, eq=False)
class Place:
    """A place for a cache: behind `stage`, computed from `base` on; `moved` are put behind the cache, the last one first."""

    stage: Stage
    base: Stage | None
    moved: tuple[Stage, ...]


def place_behind(stage: Stage, one_to_one: bool) -> Place:
    """The place right behind a stage; a `one_to_one` stage (map) lets shuffle and repeat pass.

    Raises RebuildError with the stage that stands in the way.
    """
    moved: list[Stage] = []
    below = stage.inputs[0] if len(stage.inputs) == 1 else None
    while one_to_one and below is not None and below.op in MOVABLE and not all(map(constant, below.walk())):
        moved.append(below)
        below = below.inputs[0]
    for start in stage.inputs if not one_to_one else [below] if below is not None else []:
        culprit = next((s for s in start.walk() if not constant(s)), None)
        if culprit is not None:
            raise RebuildError(why_not_constant(culprit))
    return Place(stage, below, tuple(moved))


def worth_caching(stage: Stage) -> bool:
    """Whether anything is computed or read up to here, since the last cache: slices of memory need none."""
    if stage.op == "cache":
        return False
    return bool(stage.functions) or stage.op in _READERS or any(map(worth_caching, stage.inputs))


def cut_short(pipeline: Pipeline, stage: Stage) -> Stage | None:
    """A stage behind this one that stops before its end: a cache that is never read whole is never used."""
    behind = [
        s for s in pipeline.stages() if s.dataset is not stage.dataset and any(i.dataset is stage.dataset for i in s.walk())
    ]
    return next((s for s in behind if s.op in _STOP), None)


def cached_before(pipeline: Pipeline, stage: Stage) -> Stage | None:
    """A cache that stands at or behind a stage already."""
    caches = [s for s in pipeline.find("cache") if any(inner.dataset is stage.dataset for inner in s.walk())]
    return caches[0] if caches else None


def to_cache(place: Place, prefix: Any = None) -> Any:
    """The data set whose elements the cache keeps: the stage (with `prefix` for its function) over the base."""
    if prefix is None and not place.moved:
        return place.stage.dataset
    if place.base is None:
        raise RebuildError(f"{place.stage.title} has no single input to compute from.")
    with reused_functions():
        return construct(place.stage.dataset, [place.base.dataset], **({"map_func": prefix} if prefix is not None else {}))


def with_cache(pipeline: Pipeline, place: Place, filename: str = "", prefix: Any = None, suffix: Any = None) -> Any:
    """The pipeline with a cache at a place; `prefix` and `suffix` are the two parts of the stage's function."""
    from tensorflow.python.data.ops import cache_op

    def edit(node: Any, inputs: Sequence[Any]) -> Any:
        made = cache_op.CacheDataset(to_cache(place, prefix), filename, name="outpace_cache")
        for stage in reversed(place.moved):
            made = construct(stage.dataset, [made])
        return made if suffix is None else construct(node, [made], map_func=suffix)

    return rebuild(pipeline.dataset, [(place.stage.dataset, edit)])


def best_place(pipeline: Pipeline) -> tuple[Stage, Place]:
    """The last stage whose elements are the same in every epoch and cost something. Raises RebuildError with the reason otherwise."""
    reasons = []
    for stage in pipeline.spine():
        if stage.op in MOVABLE:
            continue
        if not constant(stage):
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
            return stage, place_behind(stage, one_to_one=stage.op == "map")
        except RebuildError as error:
            reasons.append(str(error))
    raise RebuildError(reasons[0] if reasons else "There is no stage to cache.")

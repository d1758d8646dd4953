"""Follows the rewrites of a variant once more, from the user's pipeline on, and keeps the row of calls beside it.

Every rewrite's patch speaks of the pipeline that it was applied to. After each one the row of calls must hold the same operations, in the
same order, as the rewritten data set; else the patch does not say what was done, and that rewrite is left to the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from outpace.capture.pipeline import PipelineRecorder
from outpace.model.errors import RebuildError
from outpace.store.record import PipelineStage
from outpace.tune.data.tree import Pipeline, Stage, describe
from outpace.tune.optimisations.optimisation import NotApplicable
from outpace.tune.optimisations.rewrite import Rewrite
from outpace.tune.patch.calls import OPTIONS, Call, Row, Unpatchable, collapsed


@dataclass(frozen=True, eq=False)
class Followed:
    """The row of calls after all rewrites that patches can say, the user's pipeline, and (rewrite, reason) of the others."""

    row: Row
    pipeline: Pipeline
    dataset: Any
    left: tuple[tuple[Rewrite, str], ...]


def follow(
    dataset: Any, rewrites: Iterable[Rewrite], recorder: PipelineRecorder, check: Callable[[Row], object] = lambda row: None
) -> Followed:
    """Apply rewrites to the user's data set, in order. May trace functions; runs a few elements where a cache is measured.

    `check` raises Unpatchable for a row that cannot be written; the last rewrite is then left out.
    """
    start = pipeline = describe(dataset, recorder)
    row, left = row_of(pipeline), []
    for rewrite in rewrites:
        try:
            after, changed = _step(rewrite, named(pipeline, row.calls), row)
            check(after)
        except Unpatchable as reason:
            left.append((rewrite, str(reason)))
            continue
        row, dataset = after, changed
        pipeline = describe(dataset, recorder)
    return Followed(row, start, dataset, tuple(left))


def row_of(pipeline: Pipeline) -> Row:
    """The stages from the source to the end, as calls; what nobody recorded gets a negative key."""
    stages = list(reversed(pipeline.spine()))
    return Row.of(
        Call(stage.record.id if stage.record is not None else -1 - at, stage.op, stage.record)
        for at, stage in enumerate(stages)
    )


def named(pipeline: Pipeline, calls: Sequence[Call]) -> Pipeline:
    """The pipeline with every stage of its main line recorded under its call's key, so that patches speak of calls."""
    stages = list(reversed(pipeline.spine()))
    if collapsed([stage.op for stage in stages]) != collapsed([call.op for call in calls]):
        raise Unpatchable("the calls do not line up with the stages of the pipeline")
    keys: dict[int, Call] = {}
    todo = list(calls)
    for stage in stages:
        if stage.op == OPTIONS and not (todo and todo[0].op == OPTIONS):
            continue
        keys[id(stage.dataset)] = todo.pop(0)
    return Pipeline(_named(pipeline.root, keys), pipeline.dataset)


def _named(stage: Stage, keys: Mapping[int, Call]) -> Stage:
    inputs = tuple(_named(each, keys) for each in stage.inputs)
    call = keys.get(id(stage.dataset))
    if call is None:
        return replace(stage, inputs=inputs)
    known = call.place or stage.record
    place = PipelineStage(call.key, call.op or "", None, known.file if known else "", known.line if known else 0, "")
    return replace(stage, inputs=inputs, record=place)


def _step(rewrite: Rewrite, pipeline: Pipeline, row: Row) -> tuple[Row, Any]:
    applies = rewrite.applies(pipeline)
    if isinstance(applies, NotApplicable):
        raise Unpatchable(
            f"it does not fit the pipeline without the changes that are left to you ({applies.sentence.rstrip('.')})"
        )
    patches = rewrite.patch(pipeline)
    if not patches:
        raise Unpatchable(rewrite.practice)
    after = row.patched(patches)
    try:
        changed = rewrite.apply(pipeline)
    except RebuildError as error:
        raise Unpatchable(str(error)) from None
    stages = list(reversed(describe(changed).spine()))
    if collapsed([stage.op for stage in stages]) != collapsed([call.op for call in after.calls]):
        raise Unpatchable("its patch does not give the pipeline that was measured")
    return after, changed

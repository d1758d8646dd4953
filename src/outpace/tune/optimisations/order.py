"""The order of stages: a shard, a shuffle, a cache or a batch before the stage that it stands behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data import functions
from outpace.tune.data.classes import construct
from outpace.tune.data.iterator import stages_of
from outpace.tune.data.rebuild import rebuild, reused_functions
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations.optimisation import (
    Answer,
    Applies,
    NotApplicable,
    Patch,
    Rewrite,
    call_of,
    first_refusal,
    moved_call,
)


def moved_before(pipeline: Pipeline, stage: Stage, passed: Sequence[Stage]) -> Any:
    """The pipeline with `stage` in front of the stages that it passes (its inputs in order, the nearest first).

    Raises RebuildError when one of them feeds another stage too, or a class is unknown.
    """
    for other in passed:
        if len(pipeline.consumers(other)) != 1:
            raise RebuildError(f"{other.title} feeds another stage as well.")
    base = passed[-1].inputs[0].dataset

    def edit(node: Any, inputs: Sequence[Any]) -> Any:
        made = construct(node, [base])
        for other in reversed(passed):
            made = construct(other.dataset, [made])
        return made

    return rebuild(pipeline.dataset, [(stage.dataset, edit)])


def passable(stage: Stage, ops: Sequence[str]) -> list[Stage]:
    """The stages right before `stage` of the given operations that make one element of one element and always the same one.

    Of a Python function that is only known under a condition, which who moves a stage does not state.
    """
    found: list[Stage] = []
    below = stage.inputs[0] if len(stage.inputs) == 1 else None
    while below is not None and below.op in ops and _passable(below):
        found.append(below)
        below = below.inputs[0]
    return found


def _passable(stage: Stage) -> bool:
    return stage.deterministic and len(stage.inputs) == 1 and not any(facts.python for facts in stage.functions)


class Moved(Rewrite):
    """A stage in front of those that it stands behind."""

    def found(self, pipeline: Pipeline) -> tuple[Stage, list[Stage]] | NotApplicable:
        """The stage to move, and those that it passes, the nearest first."""
        raise NotImplementedError

    def apply(self, pipeline: Pipeline) -> Any:
        """The stage, with its arguments, before the others."""
        found = self.found(pipeline)
        return pipeline.dataset if isinstance(found, NotApplicable) else moved_before(pipeline, *found)

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The call goes, and comes again before the others."""
        found = self.found(pipeline)
        return () if isinstance(found, NotApplicable) else moved_call(found[0], found[1][-1].inputs[0])

    def feeding(self, pipeline: Pipeline, op: str, ops: Sequence[str]) -> Stage | None:
        """A stage of an operation that feeds one of others: the order of stages of the pipeline that an iterator was made of."""
        return next((s for s in pipeline.find(op) if any(user.op in ops for user in pipeline.consumers(s))), None)


class ShardEarly(Moved):
    """Shard before the maps: a worker does not compute elements that belong to another."""

    id = "shard_early"
    title = "Shard before the map"
    practice = "Shard the data early, before expensive transformations"
    holds_when = "always: shard picks positions and never looks at elements"
    _passed = ("map", "prefetch")

    def found(self, pipeline: Pipeline) -> tuple[Stage, list[Stage]] | NotApplicable:
        """A shard right behind maps that are functions of their element alone."""
        shards = pipeline.find("shard")
        for stage in shards:
            passed = passable(stage, self._passed)
            if any(other.op == "map" for other in passed):
                return stage, passed
        if not shards:
            return NotApplicable("The pipeline is not sharded.")
        return NotApplicable(f"{shards[0].inputs[0].title} before {shards[0].title} does not let it pass.")

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Where such a shard is found."""
        found = self.found(pipeline)
        if isinstance(found, NotApplicable):
            return found
        stage, passed = found
        share = stage.arguments.get("num_shards", "n")
        return Applies(
            f"{stage.title} drops all but one of {share} elements that {passed[0].title} computed.", Risk.EXACT, stage
        )

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The order of stages."""
        stage = self.feeding(rewritten, "shard", self._passed)
        return f"{stage.title} stands before a map." if stage is not None else None


class ShuffleBeforeMap(Moved):
    """Shuffle small elements before a map makes large ones of them."""

    id = "shuffle_before_map"
    title = "Shuffle before the map"
    practice = "Reduce memory footprint: shuffle file names or small records, not decoded elements"
    holds_when = "always: a shuffle permutes positions and never looks at elements"
    minor = True

    def found(self, pipeline: Pipeline) -> tuple[Stage, list[Stage]] | NotApplicable:
        """A shuffle right behind maps that are functions of their element alone."""
        refusals: list[str] = []
        for stage in pipeline.find("shuffle"):
            passed = passable(stage, ("map",))
            if passed:
                return stage, passed
            below = stage.inputs[0]
            if below.op == "map":
                causes = ", ".join(below.functions[0].stateful_causes) or "its order is free"
                refusals.append(
                    f"{below.title} is more than a function of its element ({causes}): a moved shuffle would change what it draws."
                )
        return first_refusal(refusals, "No shuffle stands behind a map.")

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Where such a shuffle is found."""
        found = self.found(pipeline)
        if isinstance(found, NotApplicable):
            return found
        names = ", ".join(other.title for other in found[1])
        return Applies(
            f"{found[0].title} buffers what {names} made; the same order comes of shuffling before.", Risk.EXACT, found[0]
        )

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The order of stages (TensorFlow does not move a shuffle)."""
        stage = self.feeding(rewritten, "shuffle", ("map",))
        return f"{stage.title} feeds a map." if stage is not None else None


class CacheBeforeShuffle(Moved):
    """Cache before the shuffle: a shuffle before a cache happens once, and every epoch repeats its order."""

    id = "cache_before_shuffle"
    title = "Cache before the shuffle"
    practice = "Order of cache and shuffle: cache, then shuffle, so that every epoch has an order of its own"
    holds_when = "the training may see another order of elements from the second epoch on"
    opt_in = True

    def found(self, pipeline: Pipeline) -> tuple[Stage, list[Stage]] | NotApplicable:
        """A memory cache right behind a shuffle."""
        for stage in pipeline.find("cache"):
            if stage.inputs[0].op == "shuffle" and not stage.arguments.get("filename"):
                return stage, [stage.inputs[0]]
        return NotApplicable("No cache in memory stands right behind a shuffle.")

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Where such a cache is found."""
        found = self.found(pipeline)
        if isinstance(found, NotApplicable):
            return found
        return Applies(f"{found[0].title} keeps the order of one shuffle for all epochs.", Risk.REORDERED, found[0])

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The order of stages."""
        stage = self.feeding(rewritten, "cache", ("shuffle",))
        return f"{stage.title} feeds a shuffle." if stage is not None else None


class BatchBeforeMap(Rewrite):
    """Batch before an elementwise map: one call per batch instead of one per element. `function` makes a function of a batch of a function
    of an element."""

    id = "batch_before_map"
    title = "Batch before the map"
    practice = "Vectorize mapping: batch first, then map over whole batches"
    holds_when = "always: proved on the operations of the function's graph"
    function: Callable[[Any, Any], Any] = staticmethod(functions.batched)

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """A map right before a batch, with a function that may be handed a batch."""
        stage = batch_behind_map(pipeline)
        if stage is None:
            return NotApplicable("No map stands right before a batch.")
        try:
            self._batch_function(stage)
        except RebuildError as error:
            return NotApplicable(f"{stage.inputs[0].title}: {error}")
        return Applies(f"{stage.inputs[0].title} is called for every element, and could take a whole batch.", Risk.EXACT, stage)

    def apply(self, pipeline: Pipeline) -> Any:
        """Batch, then the map over batches."""
        stage = batch_behind_map(pipeline)
        if stage is None:
            raise RebuildError("No map stands right before a batch.")
        mapping, function = stage.inputs[0], self._batch_function(stage)

        def edit(node: Any, inputs: Sequence[Any]) -> Any:
            batch = construct(node, [mapping.inputs[0].dataset])
            return construct(mapping.dataset, [batch], map_func=function)

        return rebuild(pipeline.dataset, [(stage.dataset, edit)])

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The running iterator has a map that no batch was fused with."""
        fused = any(name.startswith("MapAndBatch") for name in stages_of(iterator))
        found = [s for s in rewritten.find("map") if s.inputs[0].op == "batch"]
        return f"{found[0].title} runs on whole batches." if found and not fused else None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The two calls change places."""
        stage = batch_behind_map(pipeline)
        return () if stage is None else moved_call(stage, stage.inputs[0].inputs[0])

    def _batch_function(self, stage: Stage) -> Any:
        mapping = stage.inputs[0]
        if mapping.opaque or mapping.inputs[0].opaque:
            raise RebuildError("its class, or that of its input, is not known.")
        return self.function(mapping.dataset._map_func, _batch_structure(mapping, stage))


def batch_behind_map(pipeline: Pipeline) -> Stage | None:
    """The batch whose only input is a map that nothing else reads."""
    for stage in pipeline.find("batch"):
        if stage.inputs and stage.inputs[0].op == "map" and len(pipeline.consumers(stage.inputs[0])) == 1:
            return stage
    return None


def _batch_structure(mapping: Stage, stage: Stage) -> Any:
    """Structure of a batch of the map's input elements."""
    with reused_functions():
        return construct(stage.dataset, [mapping.inputs[0].dataset]).element_spec


class VectorisedMap(BatchBeforeMap):
    """A vectorised map where equality is only seen on samples."""

    id = "vectorised_map"
    title = "Let TensorFlow vectorise the map's function"
    practice = "Vectorize mapping: tf.vectorized_map over batches"
    holds_when = "what is equal on the compared elements is equal on all, which is not proved"
    opt_in = True
    function = staticmethod(functions.vectorised)

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """A map right before a batch, pure, and not provably elementwise (that is the other rewrite's)."""
        stage = batch_behind_map(pipeline)
        if stage is not None and not stage.inputs[0].opaque and functions.illegal(stage.inputs[0].dataset._map_func) is None:
            return NotApplicable(f"{stage.inputs[0].title} is elementwise: it can take a batch as it is.")
        return super().applies(pipeline)

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The two calls change places, and the function is wrapped."""
        stage = batch_behind_map(pipeline)
        if stage is None:
            return ()
        note = "wrap the function: lambda *batch: tf.vectorized_map(lambda element: function(*element), batch)"
        return (*super().patch(pipeline), Patch(call_of(stage.inputs[0]), note=note))


OPTIMISATIONS = (ShardEarly(), ShuffleBeforeMap(), CacheBeforeShuffle(), BatchBeforeMap(), VectorisedMap())

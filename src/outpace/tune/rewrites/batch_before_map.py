"""Batch before an elementwise map: one call per batch instead of one per element."""

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
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of


class BatchBeforeMap:
    """See the module's docstring. `function` makes a function of a batch of a function of an element."""

    id = "batch_before_map"
    title = "Batch before the map"
    practice = "Vectorize mapping: batch first, then map over whole batches"
    holds_when = "always: proved on the operations of the function's graph"
    opt_in = False
    minor = False
    options_change = False
    function: Callable[[Any, Any], Any] = staticmethod(functions.batched)

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A map right before a batch, with a function that may be handed a batch."""
        stage = batch_behind_map(pipeline)
        if stage is None:
            return Refusal("No map stands right before a batch.")
        try:
            self._batch_function(stage)
        except RebuildError as error:
            return Refusal(f"{stage.inputs[0].title}: {error}")
        return Reason(f"{stage.inputs[0].title} is called for every element, and could take a whole batch.", Risk.EXACT, stage)

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
        if stage is None:
            return ()
        before = stage.inputs[0].inputs[0]
        return (Patch(call_of(stage), remove=True, note=f"comes again behind {before.title}", after=call_of(before)),)

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


REWRITE = BatchBeforeMap()

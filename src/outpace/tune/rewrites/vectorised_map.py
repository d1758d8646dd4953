"""A vectorised map where equality is only seen on samples: opt-in."""

from __future__ import annotations

from outpace.tune.data import functions
from outpace.tune.data.tree import Pipeline
from outpace.tune.rewrites.batch_before_map import BatchBeforeMap, batch_behind_map
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of


class VectorisedMap(BatchBeforeMap):
    """See the module's docstring."""

    id = "vectorised_map"
    title = "Let TensorFlow vectorise the map's function"
    practice = "Vectorize mapping: tf.vectorized_map over batches"
    holds_when = "equality on the compared elements is taken for equality on all: it is not proved"
    opt_in = True
    minor = False
    function = staticmethod(functions.vectorised)

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A map right before a batch, pure, and not provably elementwise (that is the other rewrite's)."""
        stage = batch_behind_map(pipeline)
        if stage is not None and not stage.inputs[0].opaque and functions.illegal(stage.inputs[0].dataset._map_func) is None:
            return Refusal(f"{stage.inputs[0].title} is elementwise: it can take a batch as it is.")
        return super().applies(pipeline)

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The two calls change places, and the function is wrapped."""
        stage = batch_behind_map(pipeline)
        if stage is None:
            return ()
        note = "wrap the function: lambda *batch: tf.vectorized_map(lambda element: function(*element), batch)"
        return (*super().patch(pipeline), Patch(call_of(stage.inputs[0]), note=note))


REWRITE = VectorisedMap()

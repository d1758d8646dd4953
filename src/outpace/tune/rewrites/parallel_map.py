"""`num_parallel_calls=AUTOTUNE` for the maps that TensorFlow does not parallelise by itself: stateful ones."""

from __future__ import annotations

from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data import graph
from outpace.tune.data.classes import unknown
from outpace.tune.data.iterator import parameter_of
from outpace.tune.data.rebuild import rebuild
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of, first_refusal

_AUTOTUNE = -1


class ParallelMap:
    """See the module's docstring."""

    id = "parallel_map"
    title = "Run the map's function in parallel"
    practice = "Parallelize data transformation: num_parallel_calls=tf.data.AUTOTUNE in map"
    holds_when = (
        "the training may draw its random numbers in another order; Python functions do not depend on the order of calls"
    )
    opt_in = False
    minor = False
    options_change = False

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A sequential map with a stateful function (or any, where automatic parallelisation is off)."""
        found, refusals = _candidates(pipeline)
        if not found:
            return first_refusal(refusals, "There is no sequential map in the pipeline.")
        stage = found[0]
        facts = stage.functions[0]
        causes = ", ".join(facts.stateful_causes) or "nothing stateful, and automatic parallelisation is off"
        exact = not (facts.random or facts.python)
        sentence = f"{stage.title} runs sequentially: TensorFlow does not parallelise it by itself ({causes})."
        return Reason(sentence, Risk.EXACT if exact else Risk.STATISTICAL, stage)

    def apply(self, pipeline: Pipeline) -> Any:
        """Every such map becomes parallel with autotuned parallelism, in order; by the graph where a class is not known."""
        found, _ = _candidates(pipeline)
        try:
            return rebuild(pipeline.dataset, [(stage.dataset, _parallel) for stage in found])
        except RebuildError:
            return graph.edited(pipeline.dataset, lambda found_in: graph.parallel_maps(found_in, len(found)))

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The model of the running iterator holds a parallel map with a tunable parallelism."""
        for name in ("ParallelMapV2", "ParallelMap", "MapAndBatch", "MapAndBatchV2"):
            parallelism = parameter_of(iterator, name, "parallelism")
            if parallelism is not None and parallelism.tunable:
                return f"{name} runs in the iterator with autotuned parallelism (now {parallelism.value:.0f})."
        return None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The keyword on each call."""
        return tuple(Patch(call_of(stage), {"num_parallel_calls": "tf.data.AUTOTUNE"}) for stage in _candidates(pipeline)[0])


def _candidates(pipeline: Pipeline) -> tuple[list[Stage], list[str]]:
    automatic = automatic_parallelism(pipeline)
    found, refusals = [], []
    for stage in pipeline.stages():
        if stage.class_name == "_MapDataset" and stage.opaque:
            refusals.append(unknown(stage.dataset))
        if stage.class_name != "_MapDataset" or stage.opaque:
            continue
        facts = stage.functions[0]
        if facts.writes:
            refusals.append(f"{stage.title} writes to state ({', '.join(facts.writes)}): parallel calls would race.")
        elif not facts.stateful and automatic:
            refusals.append(f"TensorFlow already parallelises stateless maps: {stage.title}.")
        else:
            found.append(stage)
    return found, refusals


def automatic_parallelism(pipeline: Pipeline) -> bool:
    """Whether TensorFlow parallelises stateless maps of this pipeline by itself (its default)."""
    own = pipeline.options.experimental_optimization
    return own.apply_default_optimizations is not False and own.map_parallelization is not False


def _parallel(node: Any, inputs: Any) -> Any:
    from tensorflow.python.data.ops import map_op

    return map_op._ParallelMapDataset(
        inputs[0],
        node._map_func,
        num_parallel_calls=_AUTOTUNE,
        deterministic=None,
        use_inter_op_parallelism=node._use_inter_op_parallelism,
        preserve_cardinality=node._preserve_cardinality,
        name=node._name,
    )


REWRITE = ParallelMap()

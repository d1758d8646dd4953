"""`num_parallel_calls=AUTOTUNE` for interleave, which TensorFlow never parallelises by itself."""

from __future__ import annotations

from typing import Any

from outpace.capture.notes import usable_cpus
from outpace.tune.data.classes import unknown
from outpace.tune.data.iterator import stages_of
from outpace.tune.data.rebuild import rebuild
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of, first_refusal

_AUTOTUNE = -1
_SEQUENTIAL = "_InterleaveDataset"


class ParallelInterleave:
    """See the module's docstring."""

    id = "parallel_interleave"
    title = "Read several files at the same time"
    practice = "Parallelize data extraction: num_parallel_calls=tf.data.AUTOTUNE in interleave"
    holds_when = "reading a file does not depend on which others are being read"
    opt_in = False
    minor = False
    options_change = False

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A sequential interleave whose function is not stateful."""
        found, refusals = _candidates(pipeline)
        if not found:
            return first_refusal(refusals, "There is no sequential interleave in the pipeline.")
        return Reason(
            f"{found[0].title} reads one element at a time: TensorFlow does not parallelise interleave by itself.",
            Risk.EXACT,
            found[0],
        )

    def apply(self, pipeline: Pipeline) -> Any:
        """Every such interleave becomes parallel; the order of elements stays that of its cycle and block length."""
        return rebuild(pipeline.dataset, [(stage.dataset, _parallel) for stage in _candidates(pipeline)[0]])

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The running iterator has a parallel interleave."""
        found = [name for name in stages_of(iterator) if name.startswith("ParallelInterleave")]
        return f"{found[0]} runs in the iterator." if found else None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The keyword on each call; none where the order hangs on this machine's cores, whose number belongs into nobody's source."""
        stages = _candidates(pipeline)[0]
        if any(stage.arguments.get("cycle_length") == _AUTOTUNE for stage in stages):
            return ()
        return tuple(Patch(call_of(stage), {"num_parallel_calls": "tf.data.AUTOTUNE"}) for stage in stages)


def _candidates(pipeline: Pipeline) -> tuple[list[Stage], list[str]]:
    found, refusals = [], []
    for stage in pipeline.stages():
        if stage.class_name != _SEQUENTIAL:
            continue
        if stage.opaque:
            refusals.append(unknown(stage.dataset))
        elif stage.functions[0].stateful_causes:
            refusals.append(f"{stage.title} is stateful ({', '.join(stage.functions[0].stateful_causes)}).")
        else:
            found.append(stage)
    return found, refusals


def _parallel(node: Any, inputs: Any) -> Any:
    from tensorflow.python.data.ops import interleave_op

    return interleave_op._ParallelInterleaveDataset(
        inputs[0], node._map_func, _cycle(node), node._block_length, _AUTOTUNE, deterministic=None, name=node._name
    )


def _cycle(node: Any) -> int:
    """Its cycle length. Left to TensorFlow, a sequential interleave takes one per core and a parallel one another number, so that the
    order would change: the sequential one's number is kept."""
    given = int(node._cycle_length)
    return given if given != _AUTOTUNE else usable_cpus()


REWRITE = ParallelInterleave()

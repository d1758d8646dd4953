"""Generators and Python functions inside a pipeline: what they cost and what to write instead. Never replaced by itself, since nobody
can show that a Python function and TensorFlow operations do the same: a cache spares its cost without that."""

from __future__ import annotations

from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data import caching
from outpace.tune.data.equivalents import equivalents
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal


class PythonStages:
    """See the module's docstring."""

    id = "python_stages"
    title = "Replace Python by TensorFlow operations"
    practice = "Avoid from_generator and py_function: they run in one process, under the GIL"
    holds_when = "never known: it is explained, not applied"
    opt_in = True
    minor = False
    options_change = False

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """Always a refusal; with what to write instead where the pipeline runs Python."""
        sentences = explain(pipeline)
        return Refusal(" ".join(sentences) if sentences else "The pipeline runs no Python.")

    def apply(self, pipeline: Pipeline) -> Any:
        """Not possible."""
        raise RebuildError("Python code is not replaced automatically: its equivalence cannot be shown.")

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """None: it is never applied."""
        return None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """None: the code has to be written by hand."""
        return ()


def explain(pipeline: Pipeline) -> tuple[str, ...]:
    """Sentences for every stage that runs Python: what it costs, whether a cache spares it, and what to write instead."""
    found = []
    for stage in pipeline.stages():
        if stage.op == "from_generator":
            found.append(
                f"{stage.title} runs a Python generator: one element at a time, holding the GIL, which the training loop needs too. "
                "Yield file names or indices with from_tensor_slices and do the work in map, or write TFRecord files once."
            )
        elif any(facts.python for facts in stage.functions):
            found += _of_functions(pipeline, stage)
    return tuple(found)


def _of_functions(pipeline: Pipeline, stage: Stage) -> list[str]:
    found = [
        f"{stage.title} calls Python for every element: calls wait for Python's interpreter lock (GIL), whatever num_parallel_calls says. "
        "Use TensorFlow operations (tf.io, tf.image, tf.strings) instead, or call it once per batch."
    ]
    calls = [call for facts in stage.functions for call in facts.calls]
    found += [sentence for call in calls if (sentence := equivalents(call.function))]
    found += [f"It cannot be cached: {call.doubt}." for call in calls if call.doubt is not None]
    cached = caching.cached_before(pipeline, stage)
    if cached is not None:
        found.append(f"It runs in the first epoch only, since {cached.title} keeps what it gives.")
    elif _cacheable(pipeline, stage):
        found.append("With a cache behind it (cache) it runs in the first epoch only, and then none of this matters.")
    return found


def _cacheable(pipeline: Pipeline, stage: Stage) -> bool:
    try:
        place, _ = caching.best_place(pipeline)
    except RebuildError:
        return False
    return any(inner.dataset is stage.dataset for inner in place.walk())


REWRITE = PythonStages()

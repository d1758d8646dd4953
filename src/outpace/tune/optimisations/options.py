"""Options of a pipeline: elements in any order, and threads of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations.optimisation import Answer, Applies, NotApplicable
from outpace.tune.optimisations.rewrite import Patch, Rewrite, call_of


def with_option(dataset: Any, change: Callable[[Any], None]) -> Any:
    """The data set with an options stage behind it; `change` sets what differs on fresh `tf.data.Options`, the others are inherited."""
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    options = tf.data.Options()
    change(options)
    return dataset_ops._OptionsDataset(dataset, options)


class AnyOrder(Rewrite):
    """`deterministic = False`: parallel stages hand elements over as they are ready, and a slow one holds up none."""

    id = "any_order"
    title = "Hand elements over in any order"
    practice = "Options: deterministic = False where the order does not matter"
    holds_when = "the training may see its elements in an order that differs from run to run"
    opt_in = True
    minor = True
    options_change = True

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """A pipeline with a stage that is parallel by its arguments and keeps the order."""
        if not pipeline.keeps_order:
            return NotApplicable("The options allow any order already.")
        stage = _waiting(pipeline)
        if stage is None:
            return NotApplicable("No stage of the pipeline has num_parallel_calls and an order to give up.")
        drawn = any(not facts.repeatable for other in pipeline.stages() for facts in other.functions)
        risk = Risk.STATISTICAL if drawn else Risk.REORDERED  # in another order, other elements get the same random numbers
        return Applies(f"{stage.title} waits for its slowest call to keep the order.", risk, stage)

    def apply(self, pipeline: Pipeline) -> Any:
        """One options stage behind the pipeline."""

        def change(options: Any) -> None:
            options.deterministic = False

        return with_option(pipeline.dataset, change)

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The options in force."""
        return None if rewritten.keeps_order else "The options in force allow any order."

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The option, set on the data set."""
        note = "options = tf.data.Options(); options.deterministic = False"
        options = {"deterministic": "False"}
        return (Patch(call_of(pipeline.root), insert=".with_options(options)", note=note, options=options),)


def _waiting(pipeline: Pipeline) -> Stage | None:
    parallel = [stage for stage in pipeline.stages() if "num_parallel_calls" in stage.arguments]
    return next((stage for stage in parallel if stage.arguments.get("deterministic") in (None, "default")), None)


PER_CORE = 0  # TensorFlow then starts a thread per core of the machine that it runs on, which no patch may fix in the source


class ThreadPool(Rewrite):
    """A thread pool of the pipeline's own, so that the model's operations do not wait behind it."""

    id = "thread_pool"
    title = "Give the pipeline threads of its own"
    practice = "Options: threading.private_threadpool_size"
    holds_when = "always"
    minor = True
    options_change = True

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """A pipeline with functions, and without a pool of its own."""
        size = pipeline.options.threading.private_threadpool_size
        if size is not None:
            return NotApplicable(f"The pipeline has a thread pool of its own already ({size} threads).")
        if not any(stage.functions for stage in pipeline.stages()):
            return NotApplicable("The pipeline runs no function, so it has nothing to do on a pool.")
        return Applies(
            "The pipeline's functions share TensorFlow's threads with the model; here they get as many of their own as there are cores.",
            Risk.EXACT,
            pipeline.root,
        )

    def apply(self, pipeline: Pipeline) -> Any:
        """One options stage behind the pipeline."""

        def change(options: Any) -> None:
            options.threading.private_threadpool_size = PER_CORE

        return with_option(pipeline.dataset, change)

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The options in force."""
        size = rewritten.options.threading.private_threadpool_size
        return "The options in force give it a thread per core." if size == PER_CORE else None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The option, set on the data set."""
        note = f"options = tf.data.Options(); options.threading.private_threadpool_size = {PER_CORE}"
        options = {"threading.private_threadpool_size": str(PER_CORE)}
        return (Patch(call_of(pipeline.root), insert=".with_options(options)", note=note, options=options),)


OPTIMISATIONS = (AnyOrder(), ThreadPool())

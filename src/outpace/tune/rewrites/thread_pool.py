"""A thread pool of the pipeline's own, so that the model's operations do not wait behind it."""

from __future__ import annotations

from typing import Any

from outpace.tune.data.options import with_option
from outpace.tune.data.tree import Pipeline
from outpace.tune.data.verify import Risk
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of

PER_CORE = 0  # TensorFlow then starts a thread per core of the machine that it runs on, which no patch may fix in the source


class ThreadPool:
    """See the module's docstring. `threads`: None means one per core that the process may use."""

    id = "thread_pool"
    title = "Give the pipeline threads of its own"
    practice = "Options: threading.private_threadpool_size"
    holds_when = "always"
    opt_in = False
    minor = True
    options_change = True

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A pipeline with functions, and without a pool of its own."""
        size = pipeline.options.threading.private_threadpool_size
        if size is not None:
            return Refusal(f"The pipeline has a thread pool of its own already ({size} threads).")
        if not any(stage.functions for stage in pipeline.stages()):
            return Refusal("The pipeline runs no function, so it has nothing to do on a pool.")
        return Reason(
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


REWRITE = ThreadPool()

# SPDX-License-Identifier: Apache-2.0
"""Stages of an input pipeline that run beside each other: `num_parallel_calls=AUTOTUNE` where
TensorFlow does not parallelise by itself, a prefetch at the end, and threads of its own.
"""

from __future__ import annotations

from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.optimisations.optimisation import (
    Answer,
    Applies,
    Explained,
    NotApplicable,
    Patch,
    Reach,
    Rewrite,
    call_of,
    first_refusal,
)
from outpace.tune.risk import Risk

_AUTOTUNE = -1


class Parallel(Rewrite):
    """`num_parallel_calls=AUTOTUNE` for the sequential stages of one operation that TensorFlow does
    not parallelise by itself.
    """

    op: str

    def refusal(self, pipeline: Pipeline, stage: Stage) -> str | None:
        """What speaks against it for a stage, as a sentence."""
        raise NotImplementedError

    def why(self, stage: Stage) -> Answer:
        """Why it may help a stage."""
        raise NotImplementedError

    def found(self, pipeline: Pipeline) -> tuple[list[Stage], list[str]]:
        """The stages, and what speaks against others."""
        sequential = [stage for stage in pipeline.find(self.op) if "num_parallel_calls" not in stage.arguments]
        refusals = {stage: self.refusal(pipeline, stage) for stage in sequential}
        return [stage for stage in sequential if not refusals[stage]], [why for why in refusals.values() if why]

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Where such a stage is found."""
        found, refusals = self.found(pipeline)
        return self.why(found[0]) if found else first_refusal(refusals, f"There is no sequential {self.op} in the pipeline.")

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The keyword on each call."""
        return tuple(Patch(call_of(stage), {"num_parallel_calls": "tf.data.AUTOTUNE"}) for stage in self.found(pipeline)[0])


class ParallelMap(Parallel):
    """Stateful maps, or all where automatic parallelisation is off."""

    id = "parallel_map"
    title = "Run the map's function in parallel"
    reach = Reach(of_input=0.5)
    practice = "Parallelize data transformation: num_parallel_calls=tf.data.AUTOTUNE in map"
    op = "map"

    def refusal(self, pipeline: Pipeline, stage: Stage) -> str | None:
        """A function that writes, or one that TensorFlow's own parallelism serves."""
        facts, own = stage.functions[0], pipeline.options.experimental_optimization
        if facts.writes:
            return f"{stage.title} writes to state ({', '.join(facts.writes)}): parallel calls would race."
        automatic = own.apply_default_optimizations is not False and own.map_parallelization is not False
        return f"TensorFlow already parallelises stateless maps: {stage.title}." if automatic and not facts.stateful else None

    def why(self, stage: Stage) -> Applies:
        """What keeps TensorFlow from it."""
        facts = stage.functions[0]
        causes = ", ".join(facts.stateful_causes) or "nothing stateful, and automatic parallelisation is off"
        exact = not (facts.random or facts.python)
        sentence = f"{stage.title} runs sequentially: TensorFlow does not parallelise it by itself ({causes})."
        return Applies(sentence, Risk.EXACT if exact else Risk.STATISTICAL, stage)


class ParallelInterleave(Parallel):
    """Interleaves, which TensorFlow never parallelises by itself."""

    id = "parallel_interleave"
    title = "Read several files at the same time"
    reach = Reach(of_input=0.5)
    practice = "Parallelize data extraction: num_parallel_calls=tf.data.AUTOTUNE in interleave"
    op = "interleave"

    def refusal(self, pipeline: Pipeline, stage: Stage) -> str | None:
        """A stateful function."""
        causes = ", ".join(stage.functions[0].stateful_causes)
        return f"{stage.title} is stateful ({causes})." if causes else None

    def why(self, stage: Stage) -> Answer:
        """What TensorFlow does; where it chooses how many inputs take turns, it would choose
        another number.
        """
        sentence = f"{stage.title} reads one element at a time: TensorFlow does not parallelise interleave by itself."
        if stage.arguments.get("cycle_length") == _AUTOTUNE:
            return Explained(
                sentence, "its order hangs on this machine's cores, and would be another one: name a cycle_length first"
            )
        return Applies(sentence, Risk.EXACT, stage)


_IDLE = ("with_options",)


class Prefetch(Rewrite):
    """`prefetch(AUTOTUNE)` at the end, where TensorFlow does not add it by itself."""

    id = "prefetch"
    title = "Prepare the next batch while the model trains"
    reach = Reach(of_input=0.3)
    practice = "Prefetch: prefetch(tf.data.AUTOTUNE) as the last stage"

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """A pipeline that does not end in a prefetch, and for which TensorFlow's own is switched
        off.
        """
        last = next((stage for stage in pipeline.spine() if stage.op not in _IDLE), pipeline.root)
        if last.op == "prefetch":
            return NotApplicable("The pipeline ends in a prefetch already.")
        own = pipeline.options.experimental_optimization
        injected = own.apply_default_optimizations is not False and own.inject_prefetch is not False
        if injected and pipeline.options.autotune.enabled is not False:
            return NotApplicable(f"TensorFlow adds a prefetch with a tuned buffer behind {last.title} by itself.")
        return Applies(
            f"Nothing is prepared ahead behind {last.title}, and the options keep TensorFlow from adding it.", Risk.EXACT, last
        )

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """`.prefetch(...)` after the last call."""
        return (Patch(call_of(pipeline.root), insert=".prefetch(tf.data.AUTOTUNE)"),)


PER_CORE = 0  # TensorFlow then starts a thread per core of the machine that it runs on, which no patch may fix in the source


class ThreadPool(Rewrite):
    """A thread pool of the pipeline's own, so that the model's operations do not wait behind it."""

    id = "thread_pool"
    title = "Give the pipeline threads of its own"
    reach = Reach(of_input=0.1)
    practice = "Options: threading.private_threadpool_size"
    minor = True

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

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The option, set on the data set."""
        note = f"options = tf.data.Options(); options.threading.private_threadpool_size = {PER_CORE}"
        options = {"threading.private_threadpool_size": str(PER_CORE)}
        return (Patch(call_of(pipeline.root), insert=".with_options(options)", note=note, options=options),)


OPTIMISATIONS = (ParallelMap(), ParallelInterleave(), Prefetch(), ThreadPool())

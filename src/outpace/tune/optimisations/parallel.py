"""Stages of an input pipeline that run beside each other: `num_parallel_calls=AUTOTUNE` where TensorFlow does not parallelise by itself, a
prefetch at the end, and threads of its own."""

from __future__ import annotations

from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.optimisations.optimisation import (
    Answer,
    Applies,
    NotApplicable,
    Patch,
    Rewrite,
    call_of,
    first_refusal,
)
from outpace.tune.risk import Risk

_AUTOTUNE = -1


class ParallelMap(Rewrite):
    """`num_parallel_calls=AUTOTUNE` for the maps that TensorFlow does not parallelise by itself: stateful ones."""

    id = "parallel_map"
    title = "Run the map's function in parallel"
    practice = "Parallelize data transformation: num_parallel_calls=tf.data.AUTOTUNE in map"

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """A sequential map with a stateful function (or any, where automatic parallelisation is off)."""
        found, refusals = _sequential_maps(pipeline)
        if not found:
            return first_refusal(refusals, "There is no sequential map in the pipeline.")
        stage = found[0]
        facts = stage.functions[0]
        causes = ", ".join(facts.stateful_causes) or "nothing stateful, and automatic parallelisation is off"
        exact = not (facts.random or facts.python)
        sentence = f"{stage.title} runs sequentially: TensorFlow does not parallelise it by itself ({causes})."
        return Applies(sentence, Risk.EXACT if exact else Risk.STATISTICAL, stage)

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The keyword on each call."""
        return tuple(
            Patch(call_of(stage), {"num_parallel_calls": "tf.data.AUTOTUNE"}) for stage in _sequential_maps(pipeline)[0]
        )


def _sequential_maps(pipeline: Pipeline) -> tuple[list[Stage], list[str]]:
    automatic = automatic_parallelism(pipeline)
    found, refusals = [], []
    for stage in pipeline.stages():
        if not _sequential(stage, "map"):
            continue
        facts = stage.functions[0]
        if facts.writes:
            refusals.append(f"{stage.title} writes to state ({', '.join(facts.writes)}): parallel calls would race.")
        elif not facts.stateful and automatic:
            refusals.append(f"TensorFlow already parallelises stateless maps: {stage.title}.")
        else:
            found.append(stage)
    return found, refusals


def _sequential(stage: Stage, op: str) -> bool:
    return stage.op == op and "num_parallel_calls" not in stage.arguments


def automatic_parallelism(pipeline: Pipeline) -> bool:
    """Whether TensorFlow parallelises stateless maps of this pipeline by itself (its default)."""
    own = pipeline.options.experimental_optimization
    return own.apply_default_optimizations is not False and own.map_parallelization is not False


class ParallelInterleave(Rewrite):
    """`num_parallel_calls=AUTOTUNE` for interleave, which TensorFlow never parallelises by itself."""

    id = "parallel_interleave"
    title = "Read several files at the same time"
    practice = "Parallelize data extraction: num_parallel_calls=tf.data.AUTOTUNE in interleave"

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """A sequential interleave whose function is not stateful."""
        found, refusals = _sequential_interleaves(pipeline)
        if not found:
            return first_refusal(refusals, "There is no sequential interleave in the pipeline.")
        return Applies(
            f"{found[0].title} reads one element at a time: TensorFlow does not parallelise interleave by itself.",
            Risk.EXACT,
            found[0],
        )

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The keyword on each call; none where the order hangs on this machine's cores, whose number belongs into nobody's source."""
        stages = _sequential_interleaves(pipeline)[0]
        if any(stage.arguments.get("cycle_length") == _AUTOTUNE for stage in stages):
            return ()
        return tuple(Patch(call_of(stage), {"num_parallel_calls": "tf.data.AUTOTUNE"}) for stage in stages)


def _sequential_interleaves(pipeline: Pipeline) -> tuple[list[Stage], list[str]]:
    found, refusals = [], []
    for stage in pipeline.stages():
        if not _sequential(stage, "interleave"):
            continue
        if stage.functions[0].stateful_causes:
            refusals.append(f"{stage.title} is stateful ({', '.join(stage.functions[0].stateful_causes)}).")
        else:
            found.append(stage)
    return found, refusals


_IDLE = ("with_options",)


class Prefetch(Rewrite):
    """`prefetch(AUTOTUNE)` at the end, where TensorFlow does not add it by itself."""

    id = "prefetch"
    title = "Prepare the next batch while the model trains"
    practice = "Prefetch: prefetch(tf.data.AUTOTUNE) as the last stage"

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """A pipeline that does not end in a prefetch, and for which TensorFlow's own is switched off."""
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

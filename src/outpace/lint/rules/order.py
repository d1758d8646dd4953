# SPDX-License-Identifier: Apache-2.0
"""DS104, DS105, DS108, DS109, DS113: stages in an order that costs time, memory or randomness."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from outpace.lint.calls import BATCHING_OPS, READERS, UNBATCHING_OPS
from outpace.lint.context import Level, LintContext, Message, Rule
from outpace.lint.functions import Trait
from outpace.lint.values import Stage
from outpace.store.record import PipelineStage

CACHED_ORDER = Rule(
    "DS104",
    "cache after shuffle",
    "A cache keeps the elements in the order of the first epoch: what was shuffled before it is never shuffled again.",
    "https://www.tensorflow.org/datasets/performances (cache before shuffle)",
    "Cache first, then shuffle: `.cache().shuffle(n)`.",
    "for evaluation data, or when one fixed order is wanted (`reshuffle_each_iteration=False` says so)",
)
CACHED_RANDOM = Rule(
    "DS105",
    "cache after random augmentation",
    "A cache keeps what the first epoch drew: every later epoch sees the very same augmented examples.",
    "https://www.tensorflow.org/guide/data_performance#caching",
    "Cache before the random stage: `.map(decode).cache().map(augment)`.",
    "when the data is read only once, or the randomness is meant to be drawn once",
)
SHUFFLED_LATE = Rule(
    "DS108",
    "shuffle after decoding",
    "The shuffle's buffer holds decoded elements, which take far more memory than file names or encoded "
    "bytes, and the first step waits until it is full of them.",
    "https://www.tensorflow.org/guide/data_performance#reducing_memory_footprint",
    "Shuffle the file names or encoded records, then map.",
    "when the buffer is small, or the decoded elements are not larger than the encoded ones",
)
SHUFFLED_BATCHES = Rule(
    "DS109",
    "shuffle after batch",
    "A shuffle after a batch shuffles whole batches: which examples stand together in a batch stays the same in every epoch.",
    "https://www.tensorflow.org/guide/data#randomly_shuffling_input_data",
    "Shuffle first, then batch: `.shuffle(n).batch(m)`.",
    "when the examples were shuffled before, or an element of the data set is itself a sequence",
)
SHARDED_LATE = Rule(
    "DS113",
    "shard late in the pipeline",
    "Everything before the shard runs on every worker for all examples, and each worker throws most of the result away.",
    'https://www.tensorflow.org/guide/profiler ("shard very early on in the input loop")',
    "Shard first, and shard the list of files rather than what they contain.",
    "with a single worker, or when what precedes the shard costs nothing",
)
RULES = (CACHED_ORDER, CACHED_RANDOM, SHUFFLED_LATE, SHUFFLED_BATCHES, SHARDED_LATE)
Both = Callable[[Stage], bool]


def check(context: LintContext) -> Iterator[Message]:
    """Yield the messages of this file's rules."""
    for stage in context.datasets.stages:
        if stage.op == "cache":
            yield from _cache(context, stage)
        elif stage.op == "shuffle":
            yield from _shuffle(context, stage)
        elif stage.op == "shard":
            yield from _shard(context, stage)


def _cache(program: LintContext, stage: Stage) -> Iterator[Message]:
    shuffles = (
        upstream
        for upstream in stage.iter_upstream()
        if upstream.op == "shuffle" and upstream.constants.get("reshuffle_each_iteration") is not False
    )
    shuffle = next(shuffles, None)
    if shuffle is not None and not _is_followed(program, stage, {"shuffle"}) and not _only_evaluated(program, stage):
        text = "This cache comes after a shuffle, so every epoch has the order of the first."
        yield from _stage_message(program, CACHED_ORDER, stage, shuffle, text)
    for upstream in stage.iter_upstream():
        if upstream.op == "map" and _draws(program, upstream):
            text = "This cache comes after a random augmentation, so every epoch has the augmented examples of the first."
            yield from _stage_message(program, CACHED_RANDOM, stage, upstream, text, random=True)
            return


def _draws(program: LintContext, stage: Stage) -> bool:
    """Whether a map's function draws random numbers, by its text or by the record of a capture."""
    traits = program.functions.traits(stage.function)
    return Trait.RANDOM in traits or any(_random(built) for built in program.record_facts.stages(stage.call, "map"))


def _shuffle(program: LintContext, stage: Stage) -> Iterator[Message]:
    if stage.is_nested:
        return
    before = _stages_until(stage, {"cache", "unknown", "snapshot"})
    shuffled = any(upstream.op == "shuffle" for upstream in stage.iter_upstream())
    for upstream in before:
        traits = program.functions.traits(upstream.function) if upstream.op == "map" else frozenset()
        if Trait.DECODES in traits and not shuffled:
            text = "This shuffle comes after a map that reads or decodes, so its buffer holds decoded elements."
            yield from _stage_message(program, SHUFFLED_LATE, stage, upstream, text)
            break
        if Trait.GROWS in traits and not shuffled:
            text = "This shuffle comes after a map that makes the elements larger, and its buffer holds the larger ones."
            yield from _stage_message(program, SHUFFLED_LATE, stage, upstream, text, level=Level.NOTE)
            break
    batch = next(
        (
            upstream
            for upstream in _stages_until(stage, UNBATCHING_OPS)
            if upstream.op in BATCHING_OPS or upstream.yields_batches
        ),
        None,
    )
    if batch is not None and not _is_followed(program, stage, BATCHING_OPS | UNBATCHING_OPS):
        level = Level.NOTE if shuffled or batch.yields_batches else Level.WARNING
        yield from _stage_message(
            program,
            SHUFFLED_BATCHES,
            stage,
            batch,
            "This shuffle comes after a batch, so it shuffles whole batches.",
            level=level,
        )


def _shard(program: LintContext, stage: Stage) -> Iterator[Message]:
    for upstream in stage.iter_upstream():
        if upstream.op in ("map", "interleave", "filter", *BATCHING_OPS) or upstream.op in READERS:
            what = "files are read" if upstream.op in READERS or upstream.op == "interleave" else f"a {upstream.op}"
            yield from _stage_message(
                program,
                SHARDED_LATE,
                stage,
                upstream,
                f"This shard comes after {_what(what)}, which every worker does for all examples.",
            )
            return


def _what(text: str) -> str:
    return "the reading of the files" if text.startswith("files") else text


def _stage_message(
    program: LintContext, rule: Rule, stage: Stage, cause: Stage, text: str, *, level: Level | None = None, random: bool = False
) -> Iterator[Message]:
    """Yield a message about two stages: confirmed or withdrawn where a capture recorded their
    creation, a note where two independent tests must both hold.
    """
    built = program.record_facts.stages(stage.call, stage.op)
    causes = {record.id: record for record in program.record_facts.stages(cause.call, cause.op)}
    if built and causes:
        joined = [item for record in built for item in program.record_facts.iter_upstream(record) if item.id in causes]
        if not joined or (random and not any(_random(item) for item in joined)):
            return
        yield program.build_message(
            rule,
            stage.call,
            text,
            level=level,
            evidence=f"the pipeline was built so, with the {cause.op} of line {joined[0].line}",
        )
        return
    if _independent(stage, cause):
        yield program.build_message(rule, stage.call, f"{text} That needs two tests to hold at once.", level=Level.NOTE)
    else:
        yield program.build_message(rule, stage.call, text, level=level)


def _random(stage: PipelineStage) -> bool:
    return any("andom" in kind or kind in ("StatefulUniform", "RngReadAndSkip") for kind in stage.stateful)


def _independent(first: Stage, second: Stage) -> bool:
    """Whether each stage stands under a test of its own."""
    return bool(first.conditions - second.conditions) and bool(second.conditions - first.conditions)


def _stages_until(stage: Stage, ops: frozenset[str] | set[str]) -> Iterator[Stage]:
    """Yield the stages before one on its own chain, as far as the first of `ops`."""
    for upstream in list(stage.iter_chain())[1:]:
        if upstream.op in ops:
            return
        yield upstream


def _is_followed(program: LintContext, stage: Stage, ops: frozenset[str] | set[str]) -> bool:
    """Whether a stage of `ops` comes later in some pipeline that contains the same call."""
    for end in program.datasets.final_stages:
        later: list[str] = []
        for later_stage in end.iter_chain():
            if later_stage.call is stage.call:
                if set(later) & ops:
                    return True
                break
            later.append(later_stage.op)
    return False


def _only_evaluated(program: LintContext, stage: Stage) -> bool:
    """Whether every data set that continues a stage is known to be used for evaluation."""
    kinds = [
        use.kind
        for use in program.datasets.uses
        for path in use.value.paths
        if any(item.call is stage.call for item in path.stage.iter_chain())
    ]
    return bool(kinds) and set(kinds) <= {"evaluate", "validation"}

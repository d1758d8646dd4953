# SPDX-License-Identifier: Apache-2.0
"""The order of stages: a shuffle, a cache or a batch before the stage that it stands behind."""

from __future__ import annotations

from outpace.tune.data.functions import takes_batches
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.optimisations.optimisation import (
    Answer,
    Applies,
    NotApplicable,
    Patch,
    Reach,
    Rewrite,
    call_of,
    first_refusal,
)
from outpace.tune.risk import Risk


def passable(stage: Stage) -> list[Stage]:
    """The maps right before a stage that make always the same of an element.

    Of a Python function that is only known under a condition, which who moves a stage does not
    state.
    """
    found: list[Stage] = []
    below = stage.inputs[0] if len(stage.inputs) == 1 else None
    while below is not None and below.op == "map" and _passable(below):
        found.append(below)
        below = below.inputs[0]
    return found


def _passable(stage: Stage) -> bool:
    return stage.deterministic and len(stage.inputs) == 1 and not any(facts.python for facts in stage.functions)


class Moved(Rewrite):
    """A stage in front of those that it stands behind. risk: what that may change."""

    risk = Risk.EXACT

    def found(self, pipeline: Pipeline) -> tuple[Stage, list[Stage]] | NotApplicable:
        """The stage to move, and those that it passes, the nearest first."""
        raise NotImplementedError

    def said(self, stage: Stage, passed: list[Stage]) -> str:
        """Why it may help, as a sentence."""
        raise NotImplementedError

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Where such a stage is found."""
        found = self.found(pipeline)
        return found if isinstance(found, NotApplicable) else Applies(self.said(*found), self.risk, found[0])

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The call goes, and comes again before the others."""
        found = self.found(pipeline)
        if isinstance(found, NotApplicable):
            return ()
        stage, before = found[0], found[1][-1].inputs[0]
        return (Patch(call_of(stage), note=f"comes again behind {before.title}", after=call_of(before)),)


class ShuffleBeforeMap(Moved):
    """Shuffle small elements before a map makes large ones of them."""

    id = "shuffle_before_map"
    title = "Shuffle before the map"
    reach = Reach(of_input=0.1)
    practice = "Reduce memory footprint: shuffle file names or small records, not decoded elements"
    minor = True

    def found(self, pipeline: Pipeline) -> tuple[Stage, list[Stage]] | NotApplicable:
        """A shuffle right behind maps that are functions of their element alone."""
        refusals: list[str] = []
        for stage in pipeline.find("shuffle"):
            passed = passable(stage)
            if passed:
                return stage, passed
            below = stage.inputs[0]
            if below.op == "map":
                causes = ", ".join(below.functions[0].stateful_causes) or "its order is free"
                refusals.append(
                    f"{below.title} is more than a function of its element ({causes}): a moved shuffle would change what it draws."
                )
        return first_refusal(refusals, "No shuffle stands behind a map.")

    def said(self, stage: Stage, passed: list[Stage]) -> str:
        """What it buffers."""
        names = ", ".join(other.title for other in passed)
        return f"{stage.title} buffers what {names} made; the same order comes of shuffling before."


class CacheBeforeShuffle(Moved):
    """Cache before the shuffle: a shuffle before a cache happens once, and every epoch repeats its
    order.
    """

    id = "cache_before_shuffle"
    title = "Cache before the shuffle"
    reach = Reach(of_input=0.2)
    practice = "Order of cache and shuffle: cache, then shuffle, so that every epoch has an order of its own"
    risk = Risk.ORDER

    def found(self, pipeline: Pipeline) -> tuple[Stage, list[Stage]] | NotApplicable:
        """A memory cache right behind a shuffle."""
        for stage in pipeline.find("cache"):
            if stage.inputs[0].op == "shuffle" and not stage.arguments.get("filename"):
                return stage, [stage.inputs[0]]
        return NotApplicable("No cache in memory stands right behind a shuffle.")

    def said(self, stage: Stage, passed: list[Stage]) -> str:
        """What it keeps."""
        return f"{stage.title} keeps the order of one shuffle for all epochs."


class BatchBeforeMap(Moved):
    """Batch before a map whose function takes batches: one call per batch instead of one per
    element.
    """

    id = "batch_before_map"
    title = "Batch before the map"
    reach = Reach(of_input=0.5)
    practice = "Vectorize mapping: batch first, then map over whole batches"

    def found(self, pipeline: Pipeline) -> tuple[Stage, list[Stage]] | NotApplicable:
        """A batch right behind a map."""
        for stage in pipeline.find("batch"):
            if stage.inputs[0].op == "map":
                return stage, [stage.inputs[0]]
        return NotApplicable("No map stands right before a batch.")

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Where the map's function was seen to take batches."""
        found = self.found(pipeline)
        if not isinstance(found, NotApplicable) and not takes_batches(found[1][0]):
            return NotApplicable(f"{found[1][0].title} was not seen to make of a batch what it makes of its elements.")
        return super().applies(pipeline)

    def said(self, stage: Stage, passed: list[Stage]) -> str:
        """What is called how often."""
        return f"{passed[0].title} is called for every element, and could take a whole batch."


OPTIMISATIONS = (ShuffleBeforeMap(), CacheBeforeShuffle(), BatchBeforeMap())

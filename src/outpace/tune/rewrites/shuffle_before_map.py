"""Shuffle small elements before a map makes large ones of them."""

from __future__ import annotations

from typing import Any

from outpace.tune.data.moving import moved_before, passable
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of, first_refusal


class ShuffleBeforeMap:
    """See the module's docstring."""

    id = "shuffle_before_map"
    title = "Shuffle before the map"
    practice = "Reduce memory footprint: shuffle file names or small records, not decoded elements"
    holds_when = "always: a shuffle permutes positions and never looks at elements"
    opt_in = False
    minor = True
    options_change = False

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A shuffle right behind maps that are functions of their element alone."""
        stage, passed, refusals = _candidate(pipeline)
        if stage is None:
            return first_refusal(refusals, "No shuffle stands behind a map.")
        names = ", ".join(other.title for other in passed)
        return Reason(f"{stage.title} buffers what {names} made; the same order comes of shuffling before.", Risk.EXACT, stage)

    def apply(self, pipeline: Pipeline) -> Any:
        """The shuffle, with its seeds, before the maps."""
        stage, passed, _ = _candidate(pipeline)
        return moved_before(pipeline, stage, passed) if stage is not None else pipeline.dataset

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The order of stages of the pipeline that the iterator was made of (TensorFlow does not move a shuffle)."""
        found = [stage for stage in rewritten.find("shuffle") if any(user.op == "map" for user in rewritten.consumers(stage))]
        return f"{found[0].title} feeds a map." if found else None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The call goes, and comes again before the first of the maps."""
        stage, passed, _ = _candidate(pipeline)
        if stage is None:
            return ()
        before = passed[-1].inputs[0]
        return (Patch(call_of(stage), remove=True, note=f"comes again behind {before.title}", after=call_of(before)),)


def _candidate(pipeline: Pipeline) -> tuple[Stage | None, list[Stage], list[str]]:
    refusals: list[str] = []
    for stage in pipeline.find("shuffle"):
        passed = passable(stage, ("map",))
        if passed:
            return stage, passed, refusals
        below = stage.inputs[0]
        if below.op == "map":
            causes = ", ".join(below.functions[0].stateful_causes) or "its order is free"
            refusals.append(
                f"{below.title} is more than a function of its element ({causes}): a moved shuffle would change what it draws."
            )
    return None, [], refusals


REWRITE = ShuffleBeforeMap()

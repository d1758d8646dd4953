"""Shard before the maps: a worker does not compute elements that belong to another."""

from __future__ import annotations

from typing import Any

from outpace.tune.data.moving import moved_before, passable
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of

_PASSED = ("map", "prefetch")


class ShardEarly:
    """See the module's docstring."""

    id = "shard_early"
    title = "Shard before the map"
    practice = "Shard the data early, before expensive transformations"
    holds_when = "always: shard picks positions and never looks at elements"
    opt_in = False
    minor = False
    options_change = False

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A shard right behind maps that are functions of their element alone."""
        stage, passed = _candidate(pipeline)
        if stage is None:
            shards = pipeline.find("shard")
            if not shards:
                return Refusal("The pipeline is not sharded.")
            return Refusal(f"{shards[0].inputs[0].title} before {shards[0].title} does not let it pass.")
        share = stage.arguments.get("num_shards", "n")
        return Reason(
            f"{stage.title} drops all but one of {share} elements that {passed[0].title} computed.", Risk.EXACT, stage
        )

    def apply(self, pipeline: Pipeline) -> Any:
        """The shard before the maps."""
        stage, passed = _candidate(pipeline)
        return moved_before(pipeline, stage, passed) if stage is not None else pipeline.dataset

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The order of stages of the pipeline that the iterator was made of."""
        found = [stage for stage in rewritten.find("shard") if any(user.op in _PASSED for user in rewritten.consumers(stage))]
        return f"{found[0].title} stands before a map." if found else None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The call goes, and comes again before the maps."""
        stage, passed = _candidate(pipeline)
        if stage is None:
            return ()
        before = passed[-1].inputs[0]
        return (Patch(call_of(stage), remove=True, note=f"comes again behind {before.title}", after=call_of(before)),)


def _candidate(pipeline: Pipeline) -> tuple[Stage | None, list[Stage]]:
    for stage in pipeline.find("shard"):
        passed = passable(stage, _PASSED)
        if any(other.op == "map" for other in passed):
            return stage, passed
    return None, []


REWRITE = ShardEarly()

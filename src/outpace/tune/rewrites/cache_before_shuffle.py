"""Cache before the shuffle: a shuffle before a cache happens once, and every epoch repeats its order."""

from __future__ import annotations

from typing import Any

from outpace.tune.data.moving import moved_before
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of


class CacheBeforeShuffle:
    """See the module's docstring."""

    id = "cache_before_shuffle"
    title = "Cache before the shuffle"
    practice = "Order of cache and shuffle: cache, then shuffle, so that every epoch has an order of its own"
    holds_when = "the training may see another order of elements from the second epoch on"
    opt_in = True
    minor = False
    options_change = False

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A memory cache right behind a shuffle."""
        stage = _candidate(pipeline)
        if stage is None:
            return Refusal("No cache in memory stands right behind a shuffle.")
        return Reason(f"{stage.title} keeps the order of one shuffle for all epochs.", Risk.REORDERED, stage)

    def apply(self, pipeline: Pipeline) -> Any:
        """Cache and shuffle change places."""
        stage = _candidate(pipeline)
        return moved_before(pipeline, stage, [stage.inputs[0]]) if stage is not None else pipeline.dataset

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The order of stages of the pipeline that the iterator was made of."""
        found = [s for s in rewritten.find("cache") if any(user.op == "shuffle" for user in rewritten.consumers(s))]
        return f"{found[0].title} feeds a shuffle." if found else None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The call goes, and comes again before the shuffle."""
        stage = _candidate(pipeline)
        if stage is None:
            return ()
        before = stage.inputs[0].inputs[0]
        return (Patch(call_of(stage), remove=True, note=f"comes again behind {before.title}", after=call_of(before)),)


def _candidate(pipeline: Pipeline) -> Stage | None:
    return next((s for s in pipeline.find("cache") if s.inputs[0].op == "shuffle" and not s.arguments.get("filename")), None)


REWRITE = CacheBeforeShuffle()

"""Split a map's function into the part that depends on its element alone, which is cached, and the random rest."""

from __future__ import annotations

from typing import Any

from outpace.model.units import Unit, humanize
from outpace.tune.data import caching, size
from outpace.tune.data.costs import proved_cache
from outpace.tune.data.errors import RebuildError
from outpace.tune.data.split import Split, split
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk
from outpace.tune.rewrites.cache import exceeds_memory
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of, first_refusal


class SplitMap:
    """See the module's docstring."""

    id = "split_map"
    title = "Cache the part of the map that is the same in every epoch"
    practice = "Cache data after time-consuming operations, before random augmentation"
    holds_when = "files that the function reads do not change while it trains"
    opt_in = False
    options_change = False

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A map whose function does work before it draws or reads state, with a place for a cache that fits into memory."""
        refusals: list[str] = []
        for stage in _stateful_maps(pipeline):
            try:
                place, parts = _plan(pipeline, stage)
                measured = size.cache_size(caching.to_cache(place, parts.prefix))
            except RebuildError as error:
                refusals.append(f"{stage.title}: {error}")
                continue
            too_large = exceeds_memory(measured)
            if too_large:
                refusals.append(f"A cache in {stage.title} {too_large}")
                continue
            held = humanize(measured.total, Unit.BYTES)
            kept = f"{parts.work} operations of {stage.title} give the same result in every epoch ({held})"
            sentence = f"{kept}; what depends on {', '.join(parts.causes)} does not."
            return Reason(sentence, Risk.EXACT, stage)
        return first_refusal(refusals, "There is no map with a stateful function to split.")

    def apply(self, pipeline: Pipeline) -> Any:
        """The pipeline with map(prefix), cache, what stood before, map(suffix): the suffix draws in the order of the original."""
        reason = self.applies(pipeline)
        if isinstance(reason, Refusal):
            raise RebuildError(reason.sentence)
        place, parts = _plan(pipeline, reason.stage)
        return caching.with_cache(pipeline, place, "", parts.prefix, parts.suffix)

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The running iterator has a memory cache, with a map on either side of it in the pipeline."""
        between = [s for s in rewritten.find("cache") if any(below.op == "map" for below in s.walk())]
        behind = [
            s for s in rewritten.find("map") for cache in between if any(below.dataset is cache.dataset for below in s.walk())
        ]
        return proved_cache(iterator, "MemoryCache") if behind else None

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The function has to be divided by hand, at the border that the note gives."""
        reason = self.applies(pipeline)
        if isinstance(reason, Refusal):
            return ()
        _, parts = _plan(pipeline, reason.stage)
        note = (
            f"divide the function: what comes before {', '.join(parts.causes)} in one map, .cache(), the rest in a second map"
        )
        return (Patch(call_of(reason.stage), note=note),)


def _stateful_maps(pipeline: Pipeline) -> list[Stage]:
    return [s for s in pipeline.spine() if s.op == "map" and s.functions and not s.functions[0].repeatable]


def _plan(pipeline: Pipeline, stage: Stage) -> tuple[caching.Place, Split]:
    if stage.arguments.get("deterministic") == "false":
        raise RebuildError("its elements come in any order.")
    cached = caching.cached_before(pipeline, stage)
    if cached is not None:
        raise RebuildError(f"it is cached already, by {cached.title}.")
    stopped = caching.cut_short(pipeline, stage)
    if stopped is not None:
        raise RebuildError(f"{stopped.title} may stop before the cache is whole.")
    return caching.place_behind(stage, one_to_one=True), split(stage.dataset._map_func)


REWRITE = SplitMap()

"""Split a map's function into the part that depends on its element alone, which is cached, and the random rest."""

from __future__ import annotations

from typing import Any

from outpace.model.errors import RebuildError
from outpace.model.units import Unit, humanize
from outpace.tune.data import caching, size
from outpace.tune.data.iterator import proved_cache
from outpace.tune.data.split import Split, split
from outpace.tune.data.tree import Pipeline, Stage, describe
from outpace.tune.data.verify import Risk
from outpace.tune.purity import evidence
from outpace.tune.rewrites.cache import exceeds_memory
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of, first_refusal


class SplitMap:
    """See the module's docstring."""

    id = "split_map"
    title = "Cache the part of the map that is the same in every epoch"
    practice = "Cache data after time-consuming operations, before random augmentation"
    holds_when = evidence.CONDITION
    opt_in = False
    minor = False
    options_change = False

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """A map whose function does work before it draws or reads state, with a place for a cache that fits into memory."""
        refusals: list[str] = []
        for stage in _stateful_maps(pipeline):
            outcome = _outcome(pipeline, stage)
            if isinstance(outcome, Reason):
                return outcome
            refusals.append(outcome)
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
        place, parts = _plan(pipeline, reason.stage)
        note = (
            f"divide the function: what comes before {', '.join(parts.causes)} in one map, .cache(), the rest in a second map"
        )
        call = call_of(reason.stage)
        before = call_of(place.base) if place.base is not None else None
        if before is None:
            return (Patch(call, note=note),)
        moved = (Patch(call_of(s), remove=True, after=before) for s in reversed(place.moved))
        return (Patch(before, insert=".cache()", note=note, divides=call), *moved)


def _outcome(pipeline: Pipeline, stage: Stage) -> Reason | str:
    """Why a stage's function is split, or why not."""
    try:
        place, parts = _plan(pipeline, stage)
        kept = caching.to_cache(place, parts.prefix)
        measured = size.cache_size(kept)
        too_large = exceeds_memory(measured)
        if too_large:
            return f"A cache in {stage.title} {too_large}"
        python = evidence.shown(stage.dataset, kept, describe(kept).calls)
    except RebuildError as error:
        return f"{stage.title}: {error}"
    held = humanize(measured.total, Unit.BYTES)
    same = f"{parts.work} operations of {stage.title} give the same result in every epoch ({held}){python}"
    return Reason(f"{same}; what depends on {', '.join(parts.causes)} does not.", Risk.EXACT, stage)


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

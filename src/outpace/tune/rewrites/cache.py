"""Cache in memory what is the same in every epoch."""

from __future__ import annotations

from typing import Any

from outpace.model.errors import RebuildError
from outpace.model.units import Unit, humanize
from outpace.tune.data import caching, size
from outpace.tune.data.iterator import proved_cache
from outpace.tune.data.tree import Pipeline, describe
from outpace.tune.data.verify import Risk
from outpace.tune.purity import evidence
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal, call_of


class Cache:
    """See the module's docstring."""

    id = "cache"
    title = "Cache in memory"
    practice = "Cache data after time-consuming operations: cache() after the map, before shuffle and random augmentation"
    holds_when = evidence.CONDITION
    opt_in = False
    minor = False
    options_change = False

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """Where a place exists, its elements fit into half of the free memory, and Python functions repeat themselves."""
        try:
            stage, place = caching.best_place(pipeline)
            kept = caching.to_cache(place)
            measured = size.cache_size(kept)
            too_large = exceeds_memory(measured)
            if too_large:
                return Refusal(f"A cache behind {stage.title} {too_large}")
            python = evidence.shown(stage.dataset, kept, describe(kept).calls)
        except RebuildError as error:
            return Refusal(str(error))
        moved = f"; {', '.join(s.title for s in place.moved)} moves behind it" if place.moved else ""
        held = humanize(measured.total, Unit.BYTES)
        return Reason(f"{stage.title} gives the same elements in every epoch ({held}){python}{moved}.", Risk.EXACT, stage)

    def apply(self, pipeline: Pipeline) -> Any:
        """The pipeline with the cache; shuffle and repeat before it move behind it."""
        _, place = caching.best_place(pipeline)
        return caching.with_cache(pipeline, place)

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The running iterator has a memory cache."""
        return proved_cache(iterator, "MemoryCache")

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """`.cache()` after the call; a moved call goes, and comes again behind it."""
        return inserted(pipeline, ".cache()")


def inserted(pipeline: Pipeline, call: str) -> tuple[Patch, ...]:
    """A call of cache at the best place in the source; what it moves comes again behind it."""
    try:
        stage, place = caching.best_place(pipeline)
    except RebuildError:
        return ()
    note = f"comes again behind the cache of {stage.title}"
    moved = tuple(Patch(call_of(s), remove=True, note=note, after=call_of(stage)) for s in reversed(place.moved))
    return (Patch(call_of(stage), insert=call), *moved)


def exceeds_memory(measured: size.CacheSize) -> str | None:
    """Why a cache is too large for memory, or None when it fits."""
    free = size.available_memory()
    if measured.total <= free * size.SHARE:
        return None
    each = f"{measured.elements:,} elements of {humanize(measured.element_bytes, Unit.BYTES)}"
    return f"would hold {humanize(measured.total, Unit.BYTES)} ({each}), more than half of the {humanize(free, Unit.BYTES)} that are free."


REWRITE = Cache()

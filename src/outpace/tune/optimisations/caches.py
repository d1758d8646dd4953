# SPDX-License-Identifier: Apache-2.0
"""Cache in memory what is the same in every epoch, in the same order or in any, or the part of a
map that depends on its element alone.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from outpace._memory import free_memory
from outpace.frameworks.tensorflow import MAP_FUNCTION
from outpace.model.errors import RebuildError
from outpace.model.units import Unit, humanize
from outpace.tune.data import caching, size
from outpace.tune.data.caching import Place, Split, split
from outpace.tune.data.tree import Pipeline, Stage, describe
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
from outpace.tune.purity import evidence
from outpace.tune.risk import Risk

_SIZES: WeakKeyDictionary[Any, size.CacheSize] = WeakKeyDictionary()


class Cache(Rewrite):
    """Caches in memory what is the same in every epoch."""

    fills = True
    id = "cache"
    title = "Cache in memory"
    reach = Reach(of_input=0.9)
    practice = "Cache data after time-consuming operations: cache() after the map, before shuffle and random augmentation"
    keeps_order, so = True, ""
    risk = Risk.EXACT

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Where a place exists, its elements fit into half of the free memory, and Python functions
        repeat themselves.
        """
        try:
            stage, place = caching.best_place(pipeline, self.keeps_order)
            kept = caching.to_cache(place)
            measured = _measured(stage, kept)
            too_large = exceeds_memory(measured)
            if too_large:
                return NotApplicable(f"A cache behind {stage.title} {too_large}")
            python = caching.repeats(stage, kept, self.keeps_order)
        except RebuildError as error:
            return NotApplicable(str(error))
        moved = f"; {', '.join(s.title for s in place.moved)} moves behind it" if place.moved else ""
        held = humanize(measured.total, Unit.BYTES)
        return Applies(
            f"{stage.title} gives the same elements in every epoch ({held}){self.so}{python}{moved}.", self.risk, stage
        )

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """`.cache()` after the call; a moved call goes, and comes again behind it."""
        try:
            stage, place = caching.best_place(pipeline, self.keeps_order)
        except RebuildError:
            return ()
        note = f"comes again behind the cache of {stage.title}"
        call = call_of(stage if place.moved else caching.end_of_call(pipeline, stage))
        moved = tuple(Patch(call_of(s), note=note, after=call) for s in reversed(place.moved))
        return (Patch(call, insert=".cache()"), *self.renewed(pipeline, stage, place), *moved)

    def renewed(self, pipeline: Pipeline, stage: Stage, place: Place) -> tuple[Patch, ...]:
        """What gives the kept elements another order in each epoch: none is needed here."""
        return ()


class CacheAnyOrder(Cache):
    """Caches what is the same in every epoch but for its order: a shuffle behind the cache renews
    that.
    """

    id = "cache_any_order"
    title = "Cache in memory, shuffle behind"
    reach = Reach(of_input=0.9)
    practice = "Cache data after time-consuming operations: cache() before the shuffle"
    instead_of = Cache.id
    keeps_order, so = False, ", in another order"
    risk = Risk.ORDER

    def renewed(self, pipeline: Pipeline, stage: Stage, place: Place) -> tuple[Patch, ...]:
        """A shuffle of all that is kept, where none stands behind it."""
        spine = pipeline.spine()
        behind = [*place.moved, *spine[: spine.index(stage)]]
        if any(other.op == "shuffle" for other in behind):
            return ()
        count = _measured(stage, caching.to_cache(place)).elements
        return (Patch(call_of(stage), insert=f".shuffle({count})"),)


def exceeds_memory(measured: size.CacheSize) -> str | None:
    """Why a cache is too large for memory, or None when it fits."""
    free = free_memory()
    if measured.total <= free * size.SHARE:
        return None
    each = f"{measured.elements:,} elements of {humanize(measured.element_bytes, Unit.BYTES)}"
    held, room = humanize(measured.total, Unit.BYTES), humanize(free, Unit.BYTES)
    return f"would hold {held} ({each}), more than half of the {room} that are free: .cache(filename) keeps it on disk."


class SplitMap(Rewrite):
    """Splits a map's function into the part that depends on its element alone, which is cached, and
    the random rest.
    """

    fills = True
    id = "split_map"
    title = "Cache the part of the map that is the same in every epoch"
    reach = Reach(of_input=0.7)
    practice = "Cache data after time-consuming operations, before random augmentation"

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """A map whose function does work before it draws or reads state, with a place for a cache
        that fits into memory.
        """
        refusals: list[str] = []
        for stage in _stateful_maps(pipeline):
            outcome = _outcome(pipeline, stage)
            if isinstance(outcome, Applies):
                return outcome
            refusals.append(outcome.sentence)
        return first_refusal(refusals, "There is no map with a stateful function to split.")

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The function has to be divided by hand, at the border that the note gives."""
        reason = self.applies(pipeline)
        if not isinstance(reason, Applies) or reason.stage is None:
            return ()
        place, parts = _plan(pipeline, reason.stage)
        note = (
            f"divide the function: what comes before {', '.join(parts.causes)} in one map, .cache(), the rest in a second map"
        )
        call = call_of(reason.stage)
        before = call_of(place.base) if place.base is not None else None
        if before is None:
            return (Patch(call, note=note),)
        moved = (Patch(call_of(s), after=before) for s in reversed(place.moved))
        return (Patch(before, insert=".cache()", note=note, divides=call), *moved)


def _outcome(pipeline: Pipeline, stage: Stage) -> Applies | NotApplicable:
    """Why a stage's function is split, or why not."""
    try:
        place, parts = _plan(pipeline, stage)
        kept = caching.to_cache(place, parts.prefix)
        measured = size.cache_size(kept)
        too_large = exceeds_memory(measured)
        if too_large:
            return NotApplicable(f"A cache in {stage.title} {too_large}")
        python = evidence.shown(kept, kept, describe(kept).calls)
    except RebuildError as error:
        return NotApplicable(f"{stage.title}: {error}")
    held = humanize(measured.total, Unit.BYTES)
    same = f"{parts.work} operations of {stage.title} give the same result in every epoch ({held}){python}"
    return Applies(f"{same}; what depends on {', '.join(parts.causes)} does not.", Risk.EXACT, stage)


def _measured(stage: Stage, kept: Any) -> size.CacheSize:
    """What a cache behind a stage would hold, measured once: counting the elements may take
    seconds. Raises RebuildError.
    """
    if stage.dataset not in _SIZES:
        _SIZES[stage.dataset] = size.cache_size(kept)
    return _SIZES[stage.dataset]


def _stateful_maps(pipeline: Pipeline) -> list[Stage]:
    maps = (stage for stage in pipeline.spine() if stage.op == "map" and stage.functions)
    return [stage for stage in maps if stage.functions[0].python or not stage.functions[0].repeatable]


def _plan(pipeline: Pipeline, stage: Stage) -> tuple[caching.Place, Split]:
    if stage.arguments.get("deterministic") == "false":
        raise RebuildError("its elements come in any order.")
    cached = caching.cached_before(pipeline, stage)
    if cached is not None:
        raise RebuildError(f"it is cached already, by {cached.title}.")
    stopped = caching.cut_short(pipeline, stage)
    if stopped is not None:
        raise RebuildError(f"{stopped.title} may stop before the cache is whole.")
    place = caching.place_behind(stage, one_to_one=True)
    evidence.see(MAP_FUNCTION.of(stage.dataset), caching.to_cache(place))
    return place, split(MAP_FUNCTION.of(stage.dataset))


OPTIMISATIONS = (Cache(), CacheAnyOrder(), SplitMap())

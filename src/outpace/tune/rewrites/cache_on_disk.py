"""Cache on disk what is the same in every epoch and does not fit into memory."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from outpace.model.errors import RebuildError
from outpace.model.units import Unit, humanize
from outpace.tune.data import caching, isolated, size
from outpace.tune.data.iterator import proved_cache
from outpace.tune.data.tree import Pipeline, describe
from outpace.tune.data.verify import Risk
from outpace.tune.purity import evidence
from outpace.tune.rewrites.cache import exceeds_memory, inserted
from outpace.tune.rewrites.rewrite import Patch, Reason, Refusal


class CacheOnDisk:
    """See the module's docstring. Files go to a new folder below `folder`, which is removed when the process ends."""

    id = "cache_on_disk"
    title = "Cache on disk"
    practice = "Cache data after time-consuming operations: cache(filename) where memory does not suffice"
    holds_when = f"{evidence.CONDITION}; an interrupted first epoch leaves files that must be removed"
    opt_in = True
    minor = False
    options_change = False

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or tempfile.gettempdir()

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """Where the elements do not fit into memory, and do into half of the free disk."""
        try:
            stage, place = caching.best_place(pipeline)
            kept = caching.to_cache(place)
            measured = size.cache_size(kept)
            if not exceeds_memory(measured):
                return Refusal(f"The elements behind {stage.title} fit into memory: a cache there is faster than one on disk.")
            free, held = size.free_disk(self.folder), humanize(measured.total, Unit.BYTES)
            if measured.total > free * size.SHARE:
                return Refusal(
                    f"A cache of {held} is more than half of the free {humanize(free, Unit.BYTES)} in {self.folder}."
                )
            python = evidence.shown(stage.dataset, kept, describe(kept).calls)
        except RebuildError as error:
            return Refusal(str(error))
        sentence = (
            f"{stage.title} gives the same elements in every epoch{python}; {held} go to {self.folder} until the process ends."
        )
        return Reason(sentence, Risk.EXACT, stage)

    def apply(self, pipeline: Pipeline) -> Any:
        """The pipeline with a file cache in a new folder."""
        _, place = caching.best_place(pipeline)
        return caching.with_cache(pipeline, place, os.path.join(isolated.new_folder(self.folder), "elements"))

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """The running iterator has a file cache."""
        return proved_cache(iterator, "FileCache")

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """`.cache(filename)` after the call."""
        return inserted(pipeline, ".cache(filename)")


REWRITE = CacheOnDisk()

"""A data set with state of its own, so that reading it in a trial does not move on the user's shuffles and caches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data.classes import construct
from outpace.tune.data.rebuild import Edit, copied
from outpace.tune.data.temporary import is_temporary, new_folder


def isolated(dataset: Any) -> Any:
    """A faithful copy, whose caches on disk are files of its own where the user's do not exist yet; the data set itself where a stage of it
    is unknown and cannot be built again."""
    try:
        return copied(dataset, _elsewhere)
    except RebuildError:
        return dataset


def _elsewhere(node: Any) -> Edit | None:
    """The edit that moves a cache on disk which a trial would write."""
    if type(node).__name__ != "CacheDataset":
        return None
    path = os.fsdecode(node._filename.numpy())
    if not path or "://" in path or is_temporary(path) or os.path.exists(f"{path}.index"):
        return None

    def edit(old: Any, inputs: Sequence[Any]) -> Any:
        return construct(old, inputs, filename=os.path.join(new_folder(os.path.dirname(path) or "."), "cache"))

    return edit

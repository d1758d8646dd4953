"""A data set with state of its own, so that reading it in a trial does not move on the user's shuffles and caches."""

from __future__ import annotations

from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data.rebuild import copied


def isolated(dataset: Any) -> Any:
    """A faithful copy; the data set itself where a stage of it is unknown and cannot be built again."""
    try:
        return copied(dataset)
    except RebuildError:
        return dataset

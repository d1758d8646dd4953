"""Functions of a run whose result is computed once and kept with the run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

from outpace.timeline import Run

T = TypeVar("T")


def derived(compute: Callable[[Run], T]) -> Callable[[Run], T]:
    """Make a function of a run keep its result with the run."""

    @wraps(compute)
    def cached(run: Run) -> T:
        return cast(T, run.derived.get(cached, lambda: compute(run)))

    return cached

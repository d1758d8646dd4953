"""Derived tables are computed once per run, also when several threads ask for one at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import TypeVar

from outpace.timeline import Run

T = TypeVar("T")


def derived(compute: Callable[[Run], T]) -> Callable[[Run], T]:
    """Make a function of a run keep its result with the run."""

    @wraps(compute)
    def cached(run: Run) -> T:
        with run._derived.setdefault((cached, "lock"), RLock()):
            if cached not in run._derived:
                run._derived[cached] = compute(run)
        result: T = run._derived[cached]
        return result

    return cached

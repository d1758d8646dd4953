"""Python functions in what is to be cached: their code shows nothing against it (purity/), and here they are run twice and compared.

Neither is a proof. A rewrite that stands on both says so, with CONDITION.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from outpace.model.errors import RebuildError
from outpace.tune.data.python_calls import PythonCall
from outpace.tune.data.tree import Stage, describe
from outpace.tune.data.verify import rows, same
from outpace.tune.reason import reason_of

CONDITION = "files that the pipeline reads do not change while it trains, and its Python functions return the same for the same arguments"
ELEMENTS = 24
SECONDS = 2.0  # for both runs together, the start of the iterators left out
_SEEN: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def shown(stage: Stage, dataset: Any) -> str:
    """Run what is to be cached (`dataset`, made of a stage) twice, if Python functions are in it; gives half a sentence on what was seen.

    Empty where no Python runs. Raises RebuildError when the second run gives something else than the first, or fails.
    """
    calls = python_calls(dataset)
    if not calls:
        return ""
    names = ", ".join(dict.fromkeys(call.name for call in calls))
    if stage.dataset not in _SEEN:
        _SEEN[stage.dataset] = repeated(dataset, names)
    return f"; {names} returned the same twice on {_SEEN[stage.dataset]} elements, with no source of change in the code"


def python_calls(dataset: Any) -> tuple[PythonCall, ...]:
    """The Python functions that run in a data set, each once."""
    stages = describe(dataset).stages()
    return tuple({call.token: call for stage in stages for facts in stage.functions for call in facts.calls}.values())


def repeated(dataset: Any, names: str, clock: Callable[[], float] = time.perf_counter) -> int:
    """On how many elements (up to ELEMENTS, within SECONDS) a second run gave what the first gave, bit by bit. Raises RebuildError."""
    import tensorflow as tf

    try:
        first = _taken(dataset, ELEMENTS, SECONDS / 2, clock)
        second = _taken(dataset, len(first), SECONDS, clock)
    except tf.errors.OpError as error:
        why = reason_of(error)
        raise RebuildError(f"{names} fails when it runs ({why}).") from error
    for number, (before, after) in enumerate(zip(first, second, strict=False)):
        if not same(before, after):
            raise RebuildError(f"{names} gave something else for element {number} when it ran a second time.")
    if not second:
        raise RebuildError("The pipeline has no elements to cache.")
    return len(second)


def _taken(dataset: Any, count: int, seconds: float, clock: Callable[[], float]) -> list[list[Any]]:
    found: list[list[Any]] = []
    started = clock()
    for element in dataset:
        found.append(rows(element))
        if len(found) >= count or clock() - started > seconds:
            break
    return found

"""Python functions in what is to be cached: their code shows nothing against it (reading.py), and here they are run twice and compared.

Neither is a proof. A rewrite that stands on both says so, with CONDITION.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from outpace.model.errors import RebuildError
from outpace.tune.purity.traced import PythonCall
from outpace.tune.reason import reason_of

CONDITION = "files that the pipeline reads do not change while it trains, and its Python functions return the same for the same arguments"
ELEMENTS = 24
SECONDS = 2.0  # for both runs together, the start of the iterators left out
_SEEN: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def shown(stage: Any, dataset: Any, calls: Sequence[PythonCall]) -> str:
    """Run what is to be cached (`dataset`, made of the data set `stage`) twice, if Python functions (`calls`) are in it; gives half a sentence
    on what was seen.

    Empty where no Python runs. Raises RebuildError when the second run gives something else than the first, or fails.
    """
    if not calls:
        return ""
    names = ", ".join(dict.fromkeys(call.name for call in calls))
    if stage not in _SEEN:
        _SEEN[stage] = repeated(dataset, names)
    return f"; {names} returned the same twice on {_SEEN[stage]} elements, with no source of change in the code"


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


def rows(element: Any) -> list[Any]:
    """An element's components as NumPy values; a data set as element (window) becomes the list of its rows."""
    import tensorflow as tf

    parts = tf.nest.flatten(element, expand_composites=False)
    found: list[Any] = []
    for part in parts:
        if isinstance(part, tf.data.Dataset):
            found.append([rows(inner) for inner in part])
        else:
            found += [
                flat.numpy() if hasattr(flat, "numpy") else flat for flat in tf.nest.flatten(part, expand_composites=True)
            ]
    return found


def same(a: Any, b: Any) -> bool:
    """Equal bit by bit (a NaN equals itself), in type and shape too."""
    if isinstance(a, list) or isinstance(b, list):
        return isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return bool(key_of(a) == key_of(b))


def key_of(value: Any) -> Any:
    """What two values have in common that are equal bit by bit."""
    if isinstance(value, list):
        return tuple(map(key_of, value))
    if hasattr(value, "tobytes"):
        kind = str(value.dtype)
        return kind, value.shape, tuple(value.ravel().tolist()) if kind == "object" else value.tobytes()
    return type(value).__name__, value

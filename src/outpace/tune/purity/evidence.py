"""Whether elements may be kept for later epochs: what a stage gives then, as far as it is known, and Python functions, whose code shows nothing
against it (reading.py), and which are run twice here and compared.

Neither is a proof. A rewrite that stands on both says so, with CONDITION.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from outpace.model.errors import RebuildError
from outpace.tune.purity.traced import FunctionFacts, PythonCall
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


class Judged(Protocol):
    """What is asked of a stage (see data/tree.py)."""

    @property
    def op(self) -> str | None:
        """Its public operation."""

    @property
    def title(self) -> str:
        """How sentences name it."""

    @property
    def opaque(self) -> bool:
        """Whether its class is unknown."""

    @property
    def deterministic(self) -> bool:
        """Whether the stage itself gives the same elements in the same order whenever its inputs do."""

    @property
    def functions(self) -> tuple[FunctionFacts, ...]:
        """The facts of its functions."""


def constant(stage: Judged) -> bool:
    """Whether what a stage gives may be kept for later epochs, as far as it depends on the stage itself."""
    return stage.deterministic and stage.op != "repeat"


def why_not_constant(stage: Judged) -> str:
    """Why a stage's elements may not be kept for later epochs."""
    if stage.opaque:
        return (
            f"{stage.title} is of a class that is not known, so nobody can say that its elements are the same in every epoch."
        )
    if stage.op == "shuffle":
        return f"{stage.title} gives another order in every epoch, and what follows it does not let it pass."
    if stage.op == "repeat":
        return f"{stage.title} repeats elements before they are cached, and what follows it does not let it pass."
    causes = ", ".join(sorted({cause for facts in stage.functions for cause in facts.changing}))
    against = "; ".join(dict.fromkeys(doubt for facts in stage.functions for doubt in facts.python_doubts))
    why = f"{causes}: {against}" if against else causes or "its order is free"
    return f"{stage.title} may give other elements in the next epoch ({why})."


def deterministic(node: Any, op: str | None, arguments: Mapping[str, Any], found: tuple[FunctionFacts, ...]) -> bool:
    """A stage that is not known, draws, runs Python that cannot be read, reads mutable state or hands over out of order is not."""
    if op is None or op == "shuffle" or arguments.get("deterministic") == "false":
        return False
    if op == "random" and getattr(node, "_rerandomize", None):
        return False
    if type(node).__name__ == "_RandomDataset" and not any(_seeds(node)):
        return False
    return all(facts.repeatable for facts in found)


def _seeds(node: Any) -> tuple[int, int]:
    return plain(getattr(node, "_seed", 0)) or 0, plain(getattr(node, "_seed2", 0)) or 0


def plain(value: Any) -> Any:
    """An argument of a stage as a plain value; None for others."""
    with contextlib.suppress(Exception):
        value = value.numpy() if hasattr(value, "numpy") else value
        value = value.item() if getattr(value, "shape", None) == () else value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, (bool, int, float, str)) else None

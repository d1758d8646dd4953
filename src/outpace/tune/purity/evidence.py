# SPDX-License-Identifier: Apache-2.0
"""Whether elements may be kept for later epochs: what a stage gives then, as far as it is known,
and Python functions, which are run twice here and compared.

Neither is a proof: the edited script is compared with the original (`same/`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from outpace.frameworks.tensorflow import PYTHON_FUNCTIONS, RERANDOMIZE, SEEDS
from outpace.model.errors import RebuildError
from outpace.tune.purity import traced
from outpace.tune.purity.traced import FunctionFacts, PythonCall
from outpace.tune.reason import reason_of

ELEMENTS = 24
SECONDS = 2.0  # for both runs together, the start of the iterators left out
_END: list[Any] = []
_SEEN: WeakKeyDictionary[Any, dict[bool, int | RebuildError]] = (
    WeakKeyDictionary()
)  # by data set, and by whether the order counts
_CLEAN: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()  # by traced function


def shown(stage: Any, dataset: Any, calls: Sequence[PythonCall], order: bool = True) -> str:
    """Run what is to be cached (`dataset`, made of the data set `stage`) twice, if Python functions
    (`calls`) are in it; gives half a sentence on what was seen. Where the elements come in another
    `order`, they are run once, with each function called twice.

    Empty where no Python runs. Raises RebuildError when the second run gives something else than
    the first, or fails.
    """
    if not calls:
        return ""
    names = ", ".join(dict.fromkeys(call.name for call in calls))
    seen = _SEEN.setdefault(stage, {})
    if order not in seen:
        try:
            seen[order] = repeated(dataset, names) if order else _called_twice(dataset, {call.token for call in calls}, names)
        except RebuildError as error:
            seen[order] = error
    found = seen[order]
    if isinstance(found, RebuildError):
        raise found
    return f"; {names} returned the same twice on {found} elements"


def see(wrapper: Any, dataset: Any) -> None:
    """Run a traced function's `dataset` once, with each Python function that it calls called twice,
    for `clean`.
    """
    tokens = {call.token for call in traced.facts(wrapper).calls}
    if tokens and wrapper not in _CLEAN:
        _CLEAN[wrapper] = _calm(tokens, dataset)[0]


def _called_twice(dataset: Any, tokens: set[str], names: str) -> int:
    """For how many elements each of the Python functions ran, and gave the same when it was called
    twice. Raises RebuildError.
    """
    calm, count = _calm(tokens, dataset)
    if tokens - calm:
        raise RebuildError(f"{names} gave something else when it was called a second time, or did not run.")
    return count


def _calm(tokens: set[str], dataset: Any) -> tuple[frozenset[str], int]:
    """Which of these Python functions ran for the first elements, and gave the same when they were
    called twice; and for how many.
    """
    import tensorflow as tf

    ran: set[str] = set()
    other: set[str] = set()
    taken: list[list[Any]] = []
    with _twice(tokens, ran, other), contextlib.suppress(tf.errors.OpError):
        taken = _taken(dataset, ELEMENTS, SECONDS, time.perf_counter)
    return frozenset(ran - other), sum(each is not _END for each in taken)


def clean(wrapper: Any) -> frozenset[str]:
    """Tokens of the Python functions that a traced function calls and that were seen to give the
    same for the same arguments.
    """
    return _CLEAN.get(wrapper, frozenset())


@contextlib.contextmanager
def _twice(tokens: set[str], ran: set[str], other: set[str]) -> Iterator[None]:
    """Meanwhile TensorFlow calls these Python functions twice; notes which `ran`, and of which the
    second call gave an `other` value.
    """
    kind: Any = type(PYTHON_FUNCTIONS.value)
    plain = kind.__call__

    def call(registry: Any, token: str, *args: Any) -> Any:
        found = plain(registry, token, *args)
        if token in tokens:
            ran.add(token)
            before = key_of(rows(found))  # what it returned may be changed in place by the second call
            try:
                again = key_of(rows(plain(registry, token, *args)))
            except Exception:  # whatever the user's function raises
                again = None
            if before != again:
                other.add(token)
        return found

    kind.__call__ = call
    try:
        yield
    finally:
        kind.__call__ = plain


def repeated(dataset: Any, names: str, clock: Callable[[], float] = time.perf_counter) -> int:
    """On how many elements (up to ELEMENTS, within SECONDS) a second run gave what the first gave,
    bit by bit. Raises RebuildError.
    """
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
    count = sum(each is not _END for each in second)
    if not count:
        raise RebuildError("The pipeline has no elements to cache.")
    return count


def _taken(dataset: Any, count: int, seconds: float, clock: Callable[[], float]) -> list[list[Any]]:
    """Its first elements, and _END where it has no more."""
    found: list[list[Any]] = []
    started = clock()
    for element in dataset:
        found.append(rows(element))
        if len(found) >= count or clock() - started > seconds:
            return found
    return [*found, _END]


def rows(element: Any) -> list[Any]:
    """An element's components as NumPy values; a data set as element (window) becomes the list of
    its rows.
    """
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
        """Whether the stage itself gives the same elements in the same order whenever its inputs
        do.
        """

    @property
    def settled(self) -> bool:
        """Whether it gives the same elements whenever its inputs do, in whatever order."""

    @property
    def functions(self) -> tuple[FunctionFacts, ...]:
        """The facts of its functions."""


def constant(stage: Judged, order: bool = True) -> bool:
    """Whether what a stage gives may be kept for later epochs, as far as it depends on the stage
    itself. order: their order, too.
    """
    return (stage.deterministic if order else stage.settled) and stage.op != "repeat"


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
    return f"{stage.title} may give other elements in the next epoch ({causes or 'its order is free'})."


def keeps_order(op: str | None, arguments: Mapping[str, Any]) -> bool:
    """Whether a stage hands its elements over in the same order in each epoch."""
    return op != "shuffle" and arguments.get("deterministic") != "false"


def settled(node: Any, op: str | None, found: tuple[FunctionFacts, ...]) -> bool:
    """A stage that is not known, draws, or reads mutable state is not; Python functions are run
    (`shown`).
    """
    if op is None:
        return False
    if op == "random" and (RERANDOMIZE.of(node) or not any(plain(seed.of(node)) for seed in SEEDS)):
        return False
    return all(facts.repeatable for facts in found)


def plain(value: Any) -> Any:
    """An argument of a stage as a plain value; None for others."""
    with contextlib.suppress(Exception):
        value = value.numpy() if hasattr(value, "numpy") else value
        value = value.item() if getattr(value, "shape", None) == () else value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, (bool, int, float, str)) else None

"""Whether a rewritten pipeline gives what the original gives: shown by running comparable copies of both, never assumed."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import Any

from outpace.model.errors import RebuildError
from outpace.model.units import counted
from outpace.tune.data.comparable import Pinning, perturb_generators, variables_kept
from outpace.tune.data.isolated import chance_kept
from outpace.tune.data.tree import describe
from outpace.tune.purity.evidence import key_of, rows, same
from outpace.tune.reason import reason_of

ELEMENTS = 64  # source elements that a comparison runs
MOST = 4 * ELEMENTS  # elements compared, where functions multiply them (interleave)
FEWEST = 16  # elements compared of a pipeline without an end, however long they take
SOON = 1.0  # seconds of an epoch, after which more of them are not asked for
EPOCHS = 2  # a cache answers from the second epoch on
AGAIN = (0.5, 2.0)  # seconds, before two runs of a Python generator are compared once more
_UNLIKE = "Two runs of the original differ as well"
_SEED, _OTHER_SEED = 20_011, 40_009


class Risk(str, Enum):
    """What a rewrite may change. EXACT: nothing. REORDERED: the same elements, in another order. STATISTICAL: which element gets
    which random number, or when Python runs."""

    EXACT = "exact"
    REORDERED = "reordered"
    STATISTICAL = "statistical"


@dataclass(frozen=True)
class Verified:
    """Both pipelines agree. `elements` were compared per epoch in `epochs`; `how` says in sentences what was shown and what not.

    `bitwise`: every component of every element was the same, bit for bit and in order.
    """

    elements: int
    epochs: int
    bitwise: bool
    how: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """The pipelines differ, or cannot be compared: `what` says where and how."""

    what: str


Rows = list[list[Any]]  # of one epoch: elements, each a list of components (NumPy arrays, or nested rows for a data set)


def verify(
    original: Any,
    rewritten: Any,
    elements: int = ELEMENTS,
    risk: Risk = Risk.EXACT,
    options_change: bool = False,
) -> Verified | Difference:
    """Compare structure, cardinality, options, and two epochs of the first `elements` of every source; of a pipeline that repeats
    without an end, as many as come soon.

    Unseeded randomness is pinned to the same seeds in both, elements are asked for in order, file caches are left out, variables get
    their values back. User functions do run (see effects.py). EXACT demands equality bit by bit; REORDERED the same multiset of
    rows in each epoch; STATISTICAL that every component which does not depend on random numbers is equal, and that the others have the
    same types and shapes: their distribution is not tested, the risk class says so.
    """
    different = _outside(original, rewritten, options_change)
    if different is not None:
        return Difference(different)
    try:
        with variables_kept(original, rewritten):
            outcome = _compared(original, rewritten, elements, risk)
            for seconds in AGAIN if describe(original).find("from_generator") else ():
                if not (isinstance(outcome, Difference) and outcome.what.startswith(_UNLIKE)):
                    break
                time.sleep(
                    seconds
                )  # the program's own iterator may still read ahead, and draw the same random numbers meanwhile
                outcome = _compared(original, rewritten, elements, risk)
    except RebuildError as error:
        return Difference(f"The pipelines cannot be compared: {error}")
    if isinstance(outcome, Verified) and rewritten.options().deterministic is False:
        return replace(outcome, how=(*outcome.how, "Compared with the order kept; the options leave it free."))
    return outcome


def _outside(original: Any, rewritten: Any, options_change: bool) -> str | None:
    """What differs before anything runs."""
    if original.element_spec != rewritten.element_spec:
        return f"The elements' structure was {original.element_spec} and became {rewritten.element_spec}."
    before, after = int(original.cardinality()), int(rewritten.cardinality())
    if before != after:
        return f"The cardinality was {before} and became {after}."
    if not options_change and original.options()._to_proto() != rewritten.options()._to_proto():
        return "The data set's options were not kept."
    return None


def _compared(original: Any, rewritten: Any, elements: int, risk: Risk) -> Verified | Difference:
    serial = risk is not Risk.STATISTICAL and _draws_in_parallel(original)
    pinning = Pinning(_SEED, elements, serial=serial)
    old = _run(original, pinning)
    new = _run(rewritten, pinning)
    lengths = [len(epoch) for epoch in old], [len(epoch) for epoch in new]
    if lengths[0] != lengths[1]:
        return Difference(f"The epochs had {lengths[0]} elements and have {lengths[1]}.")
    first = next((where for where in map(_first, old, new) if where is not None), None)
    if first is None:
        resumed = _resumes_alike(original, rewritten, pinning)
        if isinstance(resumed, Difference):
            return resumed
        shown = f"{counted(len(old[0]), 'element')} of {EPOCHS} epochs equal bit by bit."
        how = (shown, "Stateful functions that run in parallel were called one after the other.") if serial else (shown,)
        return Verified(len(old[0]), EPOCHS, True, (*how, *resumed))
    if risk is Risk.STATISTICAL:
        return _statistical(original, old, new, elements, pinning.most)
    if any(_first(a, b) is not None for a, b in zip(old, _run(original, pinning), strict=True)):
        return Difference(f"{_UNLIKE} ({first}), so equality cannot be shown.")
    if risk is Risk.REORDERED and all(_multiset(a) == _multiset(b) for a, b in zip(old, new, strict=True)):
        return Verified(len(old[0]), EPOCHS, False, (f"The same rows in {EPOCHS} whole epochs, in another order.",))
    return Difference(f"The elements differ: {first}.")


def _draws_in_parallel(dataset: Any) -> bool:
    """Whether a stateful function runs in parallel already: which of its calls comes first is then left to chance in the original too."""
    parallel = [stage for stage in describe(dataset).stages() if "num_parallel_calls" in stage.arguments]
    return any(not facts.repeatable for stage in parallel for facts in stage.functions)


def _run(dataset: Any, pinning: Pinning, perturbed: bool = False) -> list[Rows]:
    """Epochs of a fresh copy; captured variables start from the same values each time (`perturbed`: generators from another state)."""
    import tensorflow as tf

    copy = pinning.copy(dataset)
    with variables_kept(dataset), chance_kept(pinning.seed):
        if perturbed:
            perturb_generators(dataset)
        try:
            return [_epoch(copy, pinning) for _ in range(EPOCHS)]
        except tf.errors.OpError as error:
            raise RebuildError(f"it fails when it runs ({reason_of(error)}).") from error


def _epoch(copy: Any, pinning: Pinning) -> Rows:
    """One epoch; of what has no end as much as came soon the first time."""
    found: Rows = []
    endless = pinning.most is None and int(copy.cardinality()) == -1
    began = time.monotonic()
    for element in islice(iter(copy), pinning.most or MOST):
        found.append(rows(element))
        if endless and len(found) >= FEWEST and time.monotonic() - began > SOON:
            break
    if endless:
        pinning.most = len(found)
    return found


def _first(old: Rows, new: Rows) -> str | None:
    """Where two epochs first differ, as words."""
    for number, (before, after) in enumerate(zip(old, new, strict=True)):
        for part, (a, b) in enumerate(zip(before, after, strict=True)):
            if not same(a, b):
                return f"component {part} of element {number}{_shapes(a, b)}"
    return None


def _shapes(a: Any, b: Any) -> str:
    shapes = getattr(a, "shape", None), getattr(b, "shape", None)
    return f" (shape {shapes[0]} became {shapes[1]})" if shapes[0] != shapes[1] else ""


def _multiset(epoch: Rows) -> list[Any]:
    """The rows of an epoch without their order; batches are taken apart, since another order fills them differently."""
    sizes = {len(part) for element in epoch for part in element if getattr(part, "ndim", 0) > 0}
    batched = all(getattr(part, "ndim", 0) > 0 for element in epoch for part in element) and len(sizes) <= 2
    if batched:
        whole = [row for element in epoch for row in zip(*element, strict=False)]
        return sorted(repr(tuple(map(key_of, row))) for row in whole)
    return sorted(repr(tuple(map(key_of, element))) for element in epoch)


def _statistical(original: Any, old: list[Rows], new: list[Rows], elements: int, most: int | None) -> Verified | Difference:
    """Components that stay equal under other seeds do not depend on random numbers: these must be equal in both."""
    other = _run(original, Pinning(_OTHER_SEED, elements, every=True, most=most), perturbed=True)
    again = _run(original, Pinning(_SEED, elements, most=most))
    flat = [[element for epoch in epochs for element in epoch] for epochs in (old, new, other, again)]
    if len({len(element) for elements_ in flat for element in elements_}) > 1:
        return Difference("The number of components depends on chance.")
    random: set[int] = set()
    for before, _, second, third in zip(*flat, strict=False):
        random |= {part for part, a in enumerate(before) if not (same(a, second[part]) and same(a, third[part]))}
    for before, after in zip(flat[0], flat[1], strict=True):
        for part, (a, b) in enumerate(zip(before, after, strict=True)):
            if part not in random and not same(a, b):
                return Difference(f"Component {part} does not depend on random numbers, and differs.")
            if (getattr(a, "dtype", None), getattr(a, "ndim", None)) != (getattr(b, "dtype", None), getattr(b, "ndim", None)):
                return Difference(f"Component {part} has another type or rank.")
    how = (
        f"Components that do not depend on random numbers are equal bit by bit in {EPOCHS} epochs.",
        f"Random components ({', '.join(map(str, sorted(random)))}) have the same types and ranks; their distribution was not tested.",
    )
    return Verified(len(old[0]), EPOCHS, False, how)


def _resumes_alike(original: Any, rewritten: Any, pinning: Pinning) -> tuple[str, ...] | Difference:
    """Whether an iterator that was saved after one element goes on with the second, where the original's does."""
    stages = describe(original).stages()
    if any(not facts.repeatable for stage in stages for facts in stage.functions):
        return ()  # a random or Python state is not saved with an iterator: that it resumes once would be luck
    if not _resumes(pinning.copy(original)):
        return ()
    if _resumes(pinning.copy(rewritten)):
        return ("A saved iterator resumes where it stood.",)
    return Difference("A saved iterator of the original resumes where it stood, one of the rewritten pipeline does not.")


def _resumes(dataset: Any) -> bool:
    """False also where TensorFlow cannot save such an iterator (Python functions), and where there is no second element."""
    import tensorflow as tf

    iterator = iter(dataset)
    with tempfile.TemporaryDirectory() as folder:
        try:
            next(iterator)
            path = tf.train.Checkpoint(iterator=iterator).write(f"{folder}/state")
            expected = rows(next(iterator))
            tf.train.Checkpoint(iterator=iterator).read(path).assert_consumed()
            return same(rows(next(iterator)), expected)
        except (StopIteration, tf.errors.OpError, ValueError, NotImplementedError):
            return False

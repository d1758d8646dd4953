"""The Python generators that feed a pipeline (`from_generator`), and two other ways to run them: with what they compute for an item kept in
memory, and several elements at a time. Both give the same elements in the same order."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Any
from weakref import WeakKeyDictionary

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError, RebuildError
from outpace.tune.data.isolated import chance_kept
from outpace.tune.data.item_split import ItemSplit, item_split
from outpace.tune.data.tree import Stage, describe
from outpace.tune.purity.evidence import same
from outpace.tune.purity.traced import generator_of

_LOOK = 0.05  # seconds between two looks at the free memory
_PLAIN = (int, float, complex, bool, str, bytes, type(None))


@dataclass(eq=False)
class Kept:
    """A function of an item whose results are kept. repeated: calls since the last one that was not answered from memory."""

    function: Any
    items: dict[Any, Any] = field(default_factory=dict)
    bytes: int = 0
    hits: int = 0
    repeated: int = 0

    def __call__(self, *item: Any) -> Any:
        """What it gives for an item. Raises TypeError for an item that cannot be looked up, and for results that could be changed."""
        if item in self.items:
            self.hits += 1
            self.repeated += 1
            return self.items[item]
        result = self.function(*item)
        self.bytes += _frozen(result)
        self.repeated = 0
        self.items[item] = result
        return result


@dataclass(frozen=True, eq=False)
class Generated:
    """The generator function of a stage. user: as it stands in the source. spec: of one element. split, kept: the function of an item, and
    what keeps its results. chunk: elements at a time (0: one)."""

    user: types.FunctionType
    spec: Any
    split: ItemSplit | None = None
    kept: Kept | None = None
    chunk: int = 0

    @property
    def one_by_one(self) -> Any:
        """The generator function that gives single elements."""
        return self.user if self.split is None else self.split.made(lambda function: self.kept)

    @property
    def function(self) -> Any:
        """The generator function as a pipeline gets it."""
        made = self.one_by_one
        if self.chunk:
            made = chunked(made, self.chunk, self.spec)
        _MADE[made] = self
        return made

    def fill(self, seconds: float, floor: float, free: Callable[[], float]) -> None:
        """Compute all items once. Raises CaptureError where that takes longer, or leaves less than `floor` bytes `free`."""
        assert self.kept is not None
        end, look = time.monotonic() + seconds, 0.0
        with chance_kept():
            for _ in self.one_by_one():
                now = time.monotonic()
                if self.kept.repeated >= len(self.kept.items):  # a whole round
                    return
                if now > end:
                    raise CaptureError(
                        f"Keeping its items takes longer than {seconds:.0f} s (item {len(self.kept.items)}): give a larger budget."
                    )
                if now > look:
                    look = now + _LOOK
                    if free() < floor:
                        raise CaptureError(
                            f"Its items do not fit (item {len(self.kept.items)}): the caches of all variants get half of the memory that was "
                            "free at the start."
                        )


_MADE: WeakKeyDictionary[Any, Generated] = WeakKeyDictionary()


def generated(stage: Stage) -> Generated:
    """The generator of a from_generator stage. Raises RebuildError where it is no plain generator function of the user's."""
    tokens = [call.function for facts in stage.functions for call in facts.calls if call.function is not None]
    found = next((made for made in map(generator_of, tokens) if made is not None), None)
    if found in _MADE:
        return _MADE[found]
    if not isinstance(found, types.FunctionType) or not inspect.isgeneratorfunction(found):
        raise RebuildError(f"{stage.title} is given something else than a generator function.")
    if inspect.signature(found).parameters:
        raise RebuildError(f"The generator of {stage.title} takes arguments.")
    return Generated(found, stage.dataset.element_spec)


def in_chunks(plain: Generated, count: int) -> Generated:
    """The generator, several elements at a time."""
    return replace(plain, chunk=count)


def source(wanted: Generated, old: Any) -> Any:
    """A stage for a generator, which gives what the stage `old` gives."""
    import tensorflow as tf

    spec = wanted.spec
    if wanted.chunk:
        spec = tf.nest.map_structure(lambda each: tf.TensorSpec([None, *each.shape], each.dtype), spec)
    made = tf.data.Dataset.from_generator(wanted.function, output_signature=spec, name=old._name)
    if not wanted.chunk or spec == old.element_spec:
        return made
    slices = tf.data.Dataset.from_tensor_slices
    return made.flat_map((lambda *parts: slices(parts)) if isinstance(spec, tuple) else slices)


def apart(spec: Any) -> str:
    """The call that takes stacks of elements apart, as source text."""
    slices = "tf.data.Dataset.from_tensor_slices"
    return f".flat_map(lambda *parts: {slices}(parts))" if isinstance(spec, tuple) else f".flat_map({slices})"


def flat(spec: Any) -> list[Any] | None:
    """The components of elements that are a tensor, or a tuple or a dictionary of some; None for others."""
    import tensorflow as tf

    parts = list(spec) if isinstance(spec, tuple) else list(spec.values()) if isinstance(spec, dict) else [spec]
    return parts if all(isinstance(each, tf.TensorSpec) for each in parts) else None


def kept_of(dataset: Any) -> Iterator[Generated]:
    """The generators of a pipeline whose items are kept."""
    for stage in describe(dataset).find("from_generator"):
        with contextlib.suppress(RebuildError):
            found = generated(stage)
            if found.kept is not None:
                yield found


def chunked(function: Any, count: int, spec: Any) -> Any:
    """A generator function that gives several elements at a time, stacked."""
    import numpy as np

    def chunks() -> Iterator[Any]:
        elements = function()
        while chunk := list(itertools.islice(elements, count)):
            if isinstance(spec, tuple):
                yield tuple(np.stack(part) for part in zip(*chunk, strict=True))
            elif isinstance(spec, dict):
                yield {name: np.stack([each[name] for each in chunk]) for name in chunk[0]}
            else:
                yield np.stack(chunk)

    return chunks


def _frozen(value: Any) -> int:
    """Make arrays read-only; how many bytes are held. Raises TypeError for values that could be changed all the same."""
    if isinstance(value, _PLAIN):
        return sys.getsizeof(value)
    if isinstance(value, tuple):
        return sum(map(_frozen, value))
    if hasattr(value, "flags") and hasattr(value, "nbytes") and str(getattr(value, "dtype", "")) != "object":
        if hasattr(value, "setflags") and value.ndim:
            value.setflags(write=False)
        return int(value.nbytes)
    raise TypeError(f"it holds a {type(value).__name__}, which could be changed")


SAMPLE, SECONDS = 24, 2.0  # items that are computed twice, and how long the first time may take
_SPLIT: WeakKeyDictionary[Any, Generated | str] = WeakKeyDictionary()


def keeping(plain: Generated) -> Generated:
    """The generator with its items kept, which were computed twice and were the same. Raises RebuildError with the reason."""
    if plain.user not in _SPLIT:
        try:
            _SPLIT[plain.user] = _tried(plain)
        except RebuildError as error:
            _SPLIT[plain.user] = str(error)
    found = _SPLIT[plain.user]
    if isinstance(found, str):
        raise RebuildError(found)
    return replace(found, spec=plain.spec, chunk=plain.chunk)


def _tried(plain: Generated) -> Generated:
    user = plain.user
    split = item_split(user)
    holder: list[Kept] = []

    def keep(function: Any) -> Kept:
        holder.append(Kept(function))
        return holder[0]

    began = time.monotonic()
    with chance_kept():
        try:
            for _ in itertools.islice(split.made(keep)(), SAMPLE):
                if time.monotonic() > began + SECONDS / 2:
                    break
            for item, result in list(holder[0].items.items()):
                if not _alike(result, holder[0].function(*item)):
                    raise RebuildError(f"{split.name} gave something else for an item when it ran a second time.")
        except RebuildError:
            raise
        except Exception as error:
            raise RebuildError(f"What {user.__name__} computes for an item cannot be kept: {error}.") from error
    if not holder or not holder[0].items:
        raise RebuildError(f"{user.__name__} gives no element.")
    return Generated(user, plain.spec, split, holder[0])


def arrays_of(result: Any, names: tuple[str, ...]) -> list[str]:
    """Of the names that a function of an item returns, those that hold arrays."""
    values = result if len(names) > 1 else (result,)
    return [name for name, value in zip(names, values, strict=True) if hasattr(value, "flags")]


def _alike(a: Any, b: Any) -> bool:
    return isinstance(b, tuple) and len(a) == len(b) and all(map(_alike, a, b)) if isinstance(a, tuple) else bool(same(a, b))

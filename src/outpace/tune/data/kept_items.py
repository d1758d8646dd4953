"""Which part of a generator can be kept by item: its source shows one, and it gives the same twice."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from outpace.model.errors import RebuildError
from outpace.tune.data.chance import chance_kept
from outpace.tune.data.generators import Generated, Kept
from outpace.tune.data.item_split import item_split
from outpace.tune.purity.evidence import same

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

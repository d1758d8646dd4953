"""Dataclasses as plain JSON values and back, as their annotations say."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

Converters = Mapping[type, Callable[[Any], Any]]
"""Types with a form of their own, and what makes it."""

_LARGEST: Mapping[type, float] = {int: 2**62, float: 1e300}
"""Numbers below can be added, and squared or turned into one another, without leaving 64 bits or
becoming infinite. NaN is below nothing.
"""


def encode(value: Any, encode_leaf: Callable[[Any], Any] = lambda value: value, converters: Converters | None = None) -> Any:
    """Plain values of dataclasses, enums, mappings and sequences; `encode_leaf` makes those of
    everything else, texts among it.
    """
    own = (converters or {}).get(type(value))
    if own is not None:
        return own(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name), encode_leaf, converters) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {encode_leaf(str(key)): encode(item, encode_leaf, converters) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item, encode_leaf, converters) for item in value]
    return encode_leaf(value)


def decode(expected_type: Any, value: Any, converters: Converters | None = None) -> Any:
    """A value of type `expected_type`, checked all the way down: TypeError or ValueError where it
    is none, or could not be reckoned with.

    What a dataclass does not know is left out, so that a later version may add fields; what it
    misses raises TypeError, as its making does.
    """
    own = (converters or {}).get(expected_type)
    if own is not None:
        return own(value)
    if expected_type is Any or expected_type is object:
        return value
    if get_origin(expected_type) is not None:
        return _generic(expected_type, value, converters)
    if dataclasses.is_dataclass(expected_type):
        return _record(expected_type, value, converters)
    if issubclass(expected_type, Enum):
        return expected_type(value)
    if expected_type is float and type(value) is int:  # stays one, as annotations have it
        expected_type = int
    if type(value) is not expected_type:
        raise TypeError(f"{value!r:.60} is no {expected_type.__name__}")
    if expected_type in _LARGEST and not abs(value) < _LARGEST[expected_type]:
        raise ValueError(f"{value!r:.60} is no number that is reckoned with")
    return value


def _generic(kind: Any, value: Any, special: Converters | None) -> Any:
    """Tuples, mappings, and what may be missing."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        wanted = next(part for part in inner if part is not types.NoneType)
        return None if value is None else decode(wanted, value, special)
    if origin is not tuple:
        items = _of(value, Mapping, "object").items()
        return {decode(inner[0], key, special): decode(inner[1], item, special) for key, item in items}
    items = _of(value, (list, tuple), "list")
    if inner[-1] is Ellipsis:
        return tuple([decode(inner[0], item, special) for item in items])
    return tuple([decode(part, item, special) for part, item in zip(inner, items, strict=True)])


def _record(kind: Any, value: Any, special: Converters | None) -> Any:
    if isinstance(value, kind):  # decoded before
        return value
    hints = _hints(kind)
    return kind(
        **{name: decode(hints[name], item, special) for name, item in _of(value, Mapping, "object").items() if name in hints}
    )


def _of(value: Any, kind: Any, name: str) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.60} is no {name}")
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)

"""Dataclasses as plain JSON values and back, as their annotations say."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

Special = Mapping[type, Callable[[Any], Any]]
"""Types with a form of their own, and what makes it."""


def encode(value: Any, leaf: Callable[[Any], Any] = lambda value: value, special: Special | None = None) -> Any:
    """Plain values of dataclasses, enums, mappings and sequences; `leaf` makes those of everything else, texts among it."""
    own = (special or {}).get(type(value))
    if own is not None:
        return own(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name), leaf, special) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {leaf(str(key)): encode(item, leaf, special) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item, leaf, special) for item in value]
    return leaf(value)


def decode(kind: Any, value: Any, special: Special | None = None) -> Any:
    """A value of type `kind`. What a dataclass does not know is left out; what misses in it, or is of no use, raises as its making does."""
    own = (special or {}).get(kind)
    if own is not None:
        return own(value)
    if get_origin(kind) in (Union, types.UnionType):
        inner = next(part for part in get_args(kind) if part is not types.NoneType)
        return None if value is None else decode(inner, value, special)
    if get_origin(kind) is tuple:
        return tuple(decode(get_args(kind)[0], item, special) for item in value)
    if (
        get_origin(kind) is not None or not isinstance(kind, type) or isinstance(value, kind)
    ):  # Python 3.10 takes generics for types
        return value
    if dataclasses.is_dataclass(kind):
        return kind(**{name: decode(hint, value[name], special) for name, hint in _hints(kind).items() if name in value})
    return kind(value) if issubclass(kind, Enum) else value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)

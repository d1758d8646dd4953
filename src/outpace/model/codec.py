# SPDX-License-Identifier: Apache-2.0
"""Conversion of dataclasses to plain JSON values and back, guided by their type annotations."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

Converters = Mapping[type, Callable[[Any], Any]]
"""Functions that convert a value of a type, for types with a JSON form of their own."""

_LARGEST: Mapping[type, float] = {int: 2**62, float: 1e300}
"""Limit of the absolute value of numbers that are accepted: sums, squares and conversions of
smaller numbers stay within 64 bits and finite. NaN is not accepted: it is below no limit.
"""


def encode(value: Any, encode_leaf: Callable[[Any], Any] = lambda value: value, converters: Converters | None = None) -> Any:
    """Return the plain JSON values of dataclasses, enums, mappings and sequences.

    encode_leaf: applied to every other value and to the keys of mappings.
    converters: functions for types with a form of their own.
    """
    converter = (converters or {}).get(type(value))
    if converter is not None:
        return converter(value)
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
    """Return a value of type `expected_type` from plain JSON values, checked in full depth.

    Keys that a dataclass does not have are ignored, so that a later version may add fields. Raises
    TypeError or ValueError where a value is of another type or a number is beyond `_LARGEST`, and
    TypeError where a field without a default is missing.
    """
    converter = (converters or {}).get(expected_type)
    if converter is not None:
        return converter(value)
    if expected_type is Any or expected_type is object:
        return value
    if get_origin(expected_type) is not None:
        return _generic(expected_type, value, converters)
    if dataclasses.is_dataclass(expected_type):
        return _record(expected_type, value, converters)
    if issubclass(expected_type, Enum):
        return expected_type(value)
    if expected_type is float and type(value) is int:  # an int is valid where the annotation says float, and stays an int
        expected_type = int
    if type(value) is not expected_type:
        raise TypeError(f"{value!r:.60} is no {expected_type.__name__}")
    if expected_type in _LARGEST and not abs(value) < _LARGEST[expected_type]:
        raise ValueError(f"{value!r:.60} is no number that is reckoned with")
    return value


def _generic(kind: Any, value: Any, special: Converters | None) -> Any:
    """Return a value of a generic type: a tuple, a mapping, or an optional type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        inner_type = next(part for part in inner if part is not types.NoneType)
        return None if value is None else decode(inner_type, value, special)
    if origin is not tuple:
        items = _require_type(value, Mapping, "object").items()
        return {decode(inner[0], key, special): decode(inner[1], item, special) for key, item in items}
    items = _require_type(value, (list, tuple), "list")
    if inner[-1] is Ellipsis:
        return tuple([decode(inner[0], item, special) for item in items])
    return tuple([decode(part, item, special) for part, item in zip(inner, items, strict=True)])


def _record(kind: Any, value: Any, special: Converters | None) -> Any:
    if isinstance(value, kind):  # a converter has decoded it before
        return value
    hints = _hints(kind)
    return kind(
        **{
            name: decode(hints[name], item, special)
            for name, item in _require_type(value, Mapping, "object").items()
            if name in hints
        }
    )


def _require_type(value: Any, kind: Any, name: str) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.60} is no {name}")
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)

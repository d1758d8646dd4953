# SPDX-License-Identifier: Apache-2.0
"""`dataclass` for frozen classes, without generated code.

The decorator of the standard library writes and compiles half a dozen functions for every class,
which takes half a millisecond per class: a tenth of the time of a short report. Here all classes
share one `__init__`, `__eq__`, `__hash__` and `__repr__`, which look at the fields when they are
called. Creating an instance takes some microseconds longer; data of millions of rows is stored as
columns of a table, never as instances. The fields themselves are collected when they are first
asked for: a short report imports many classes of which it makes no instance. Every function of
`dataclasses` works with these classes, and a type checker treats them as standard dataclasses.
"""

from __future__ import annotations

import dataclasses
import functools
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, repr: bool = True) -> Any:
        """Class decorator with these options of `dataclasses.dataclass`. A class that is not frozen
        is passed to the decorator of the standard library.
        """

        def make(cls: type) -> type:
            if not frozen:
                return dataclasses.dataclass(eq=eq, repr=repr)(cls)
            shared = {"__init__": _init, "__setattr__": _refuse, "__delattr__": _refuse}
            if repr:
                shared["__repr__"] = _repr
            if eq:
                shared |= {"__eq__": _eq, "__hash__": _hash}
            for name in shared.keys() - cls.__dict__.keys():  # methods that the class itself defines are not replaced
                setattr(cls, name, shared[name])
            cls.__dataclass_fields__ = _Fields(cls)
            return cls

        return make if cls is None else make(cls)


class _Fields:
    """Descriptor of a class's fields, which `dataclasses` collects and puts into its place."""

    _lock = RLock()

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __get__(self, instance: Any, owner: type) -> dict[str, dataclasses.Field[Any]]:
        cls = self.cls
        with self._lock:
            if cls.__dict__["__dataclass_fields__"] is self:
                cls.__doc__ = cls.__doc__ or cls.__name__  # without a docstring, `dataclasses` would compute a signature for it
                dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
            fields: dict[str, dataclasses.Field[Any]] = cls.__dict__["__dataclass_fields__"]
            return fields


def _init(self: Any, /, *args: Any, **kwargs: Any) -> None:
    values, cls = self.__dict__, type(self)
    names, defaults, factories = _parameters(cls)  # type: ignore[arg-type]
    if len(args) > len(names):
        raise TypeError(f"{cls.__name__} takes {len(names)} arguments, {len(args)} were given")
    values |= defaults
    values.update(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names[len(args) :]:
            raise TypeError(f"{cls.__name__} takes no argument {name!r}, or not twice")
        values[name] = value
    for name, factory in factories.items():
        if name not in values:
            values[name] = factory()
    for name in names:
        if name not in values:
            raise TypeError(f"{cls.__name__} misses the argument {name!r}")
    after = getattr(self, "__post_init__", None)
    if after is not None:
        after()


@functools.cache
def _parameters(cls: type) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Return the names of a class's arguments, and its fields' default values and factories."""
    fields = dataclasses.fields(cls)
    return (
        [field.name for field in fields if field.init],
        {field.name: field.default for field in fields if field.default is not dataclasses.MISSING},
        {field.name: field.default_factory for field in fields if field.default_factory is not dataclasses.MISSING},
    )


def _compared(self: Any) -> tuple[Any, ...]:
    values = self.__dict__
    return tuple(values[field.name] for field in dataclasses.fields(self) if field.compare)


def _eq(self: Any, other: object) -> Any:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse(self: Any, name: str, *value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")

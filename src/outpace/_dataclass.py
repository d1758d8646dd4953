"""`dataclass` for frozen classes, without generated code.

The decorator of the standard library writes and compiles half a dozen functions for every class,
which takes half a millisecond per class: a tenth of the time of a short report. Here all classes
share one `__init__`, `__eq__`, `__hash__` and `__repr__`, which look at the fields when they are
called. Creating an instance takes some microseconds longer; data of millions of rows is stored as
columns of a table, never as instances. A class whose fields depend on each other has a static
method `_complete`: it gets the values of all fields, and returns those that are stored in their
place. Every function of `dataclasses` works with these classes, and a type checker treats them as
standard dataclasses.
"""

from __future__ import annotations

import dataclasses
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
            cls.__doc__ = cls.__doc__ or cls.__name__  # without a docstring, `dataclasses` would compute a signature for it
            made = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
            shared = {"__init__": _init, "__setattr__": _refuse, "__delattr__": _refuse}
            if repr:
                shared["__repr__"] = _repr
            if eq:
                shared |= {"__eq__": _eq, "__hash__": _hash}
            for name in shared.keys() - cls.__dict__.keys():  # methods that the class itself defines are not replaced
                setattr(made, name, shared[name])
            return made

        return make if cls is None else make(cls)


def _init(self: Any, /, *args: Any, **kwargs: Any) -> None:
    values, fields = self.__dict__, dataclasses.fields(self)
    values.update(_named(type(self).__name__, [field.name for field in fields if field.init], args, kwargs))
    for field in fields:
        if field.name in values:
            continue
        if field.default is not dataclasses.MISSING:
            values[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            values[field.name] = field.default_factory()
        elif field.init:
            raise TypeError(f"{type(self).__name__} misses the argument {field.name!r}")
    if complete := getattr(type(self), "_complete", None):
        values.update(complete(values))
    after = getattr(self, "__post_init__", None)
    if after is not None:
        after()


def _named(kind: str, names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by field name; TypeError for surplus, unknown or repeated ones."""
    if len(args) > len(names):
        raise TypeError(f"{kind} takes {len(names)} arguments, {len(args)} were given")
    wrong = next((name for name in kwargs if name not in names[len(args) :]), None)
    if wrong is not None:
        raise TypeError(f"{kind} takes no argument {wrong!r}, or not twice")
    return dict(zip(names, args, strict=False)) | kwargs


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

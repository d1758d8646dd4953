"""`dataclass` for frozen classes, without generated code.

The standard one writes and compiles half a dozen functions for every class, half a millisecond
each: of a short report, a tenth of the time. Here all classes share one `__init__`, `__eq__`,
`__hash__` and `__repr__`, which look at the fields when they are called. Making an instance takes
some microseconds longer; whatever has millions of rows is a column of a table, and no instance.
Everything in `dataclasses` works with these classes, and to a type checker they are the standard
ones.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, repr: bool = True) -> Any:
        """`dataclasses.dataclass` with these options; a class that is not frozen is made by the
        standard one.
        """

        def make(cls: type) -> type:
            if not frozen:
                return dataclasses.dataclass(eq=eq, repr=repr)(cls)
            cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard one spells a signature out
            made = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
            shared = {"__init__": _init, "__setattr__": _refuse, "__delattr__": _refuse}
            if repr:
                shared["__repr__"] = _repr
            if eq:
                shared |= {"__eq__": _eq, "__hash__": _hash}
            for name in shared.keys() - cls.__dict__.keys():  # what the class defines itself stays
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
    after = getattr(self, "__post_init__", None)
    if after is not None:
        after()


def _named(kind: str, names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name."""
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

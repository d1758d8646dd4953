"""What a function under reading knows of a value: made in it, or taken from outside, where it is a constant, a container, a user's object, or
state that moves; and the names of a scope.
"""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import io
import pathlib
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from outpace.tune.purity.sources import CHANCE, library

_CONSTANT = (int, float, complex, str, bytes, bool, type(None), range, slice, type(Ellipsis), pathlib.PurePath, re.Pattern)
_CONTAINER = (list, dict, set, frozenset, tuple, types.MappingProxyType)
_CALLABLE = (
    types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType, type,
    functools.partial, staticmethod, classmethod,
)  # fmt: skip
_LOOKED_AT = 10_000  # elements of a container: what lies beyond is taken for mutable
# Library types whose objects do not change: by name, so that no library is imported.
_CONSTANT_TYPES = frozenset({"dtype", "DType", "EagerTensor", "TensorShape", "TensorSpec", "ufunc", "ConversionOptions"})
_READABLE = frozenset({"ndarray", "Image", "JpegImageFile", "PngImageFile", "deque", "defaultdict", "OrderedDict", "Counter"})


def constant(value: Any) -> bool:
    """Whether nothing can change a value."""
    if isinstance(value, (*_CONSTANT, enum.Enum)) or type(value).__name__ in _CONSTANT_TYPES:
        return "(vectorized)" not in str(getattr(value, "__name__", ""))  # a ufunc around a Python function
    if type(value).__module__ == "numpy" and hasattr(value, "dtype") and type(value).__name__ != "ndarray":
        return True  # a scalar
    return isinstance(value, (tuple, frozenset)) and _all_constant(value)


def of_constants(value: Any) -> bool:
    """Whether what a container holds cannot be changed, so that an element taken out of it is the taker's own."""
    if isinstance(value, dict):
        return _all_constant(value.values())
    return isinstance(value, _CONTAINER) and _all_constant(value)


def _all_constant(values: Any) -> bool:
    return len(values) <= _LOOKED_AT and all(map(constant, values))


def plain_callable(value: Any) -> bool:
    """A function, method, class or module: what is called or looked into, and judged there."""
    return isinstance(value, _CALLABLE) or hasattr(value, "__wrapped__")


def module_of(value: Any) -> str:
    """The module of a function, class or object; of a built-in method, that of the object which it belongs to."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, types.FunctionType):  # not `__module__`, which functools.wraps takes from another function
        return str(value.__globals__.get("__name__", ""))
    own = getattr(value, "__self__", None)
    if (
        isinstance(value, (types.BuiltinFunctionType, types.MethodType))
        and own is not None
        and not isinstance(own, types.ModuleType)
    ):
        return str((own if isinstance(own, type) else type(own)).__module__)
    found = getattr(value, "__module__", None)
    return str(found if isinstance(found, str) else type(value).__module__)


def users_object(value: Any) -> bool:
    """An object of a class that is written in Python and belongs to no known library."""
    kind = type(value)
    if isinstance(value, types.SimpleNamespace):
        return True
    return not library(kind.__module__) and any(inspect.isfunction(member) for member in vars(kind).values())


def state(value: Any, depth: int = 3) -> str | None:
    """What makes a captured value state that moves or may be changed from elsewhere, as words; None when nothing does."""
    if constant(value) or plain_callable(value):
        return None
    names = {f"{kind.__module__}.{kind.__name__}" for kind in type(value).__mro__}
    if any(name.startswith(("numpy.random.", "random.", "_random.", "torch._C.Generator")) for name in names):
        return "is a random number generator"
    if any("random" in name.lower() and "tensorflow" in name for name in names):
        return "is a random number generator"
    if any(name.endswith(("Variable", "KerasVariable", "os._Environ")) for name in names):
        return "is a variable"
    if hasattr(type(value), "__next__"):
        return "is an iterator, which moves on"
    if isinstance(value, io.IOBase):
        return "is an open file, whose position moves"
    if isinstance(value, _CONTAINER):
        return _state_inside(value, depth)
    if type(value).__name__ in _READABLE or users_object(value):
        return None
    if CHANCE.search(type(value).__name__):
        return "draws random numbers"
    return f"is an object of {type(value).__module__}.{type(value).__qualname__}, whose state is not known"


def content(value: Any) -> list[Any]:
    """What a container holds, as far as it can be looked at; empty for everything else, and for constants alone."""
    if not isinstance(value, _CONTAINER) or of_constants(value) or len(value) > _LOOKED_AT:
        return []
    return list(value.values() if isinstance(value, (dict, types.MappingProxyType)) else value)


def _state_inside(value: Any, depth: int) -> str | None:
    if of_constants(value):
        return None
    if depth == 0 or len(value) > _LOOKED_AT:
        return "holds more than was looked at"
    reason = next((found for element in content(value) if (found := state(element, depth - 1)) is not None), None)
    return None if reason is None else f"holds something that {reason}"


class Doubt(Exception):
    """What speaks against a function, as a sentence with the name and the line."""


@dataclass(frozen=True, eq=False)
class Held:
    """A value from outside the function, which is known."""

    value: Any


class _Inner:
    """A value from outside that is not known: something inside a container or object."""


INNER = _Inner()
Known = Held | _Inner | None  # None: made by the function itself


def borrowed(found: Known) -> bool:
    """Whether a change of the value would be seen outside."""
    if isinstance(found, Held):
        return not constant(found.value) and not plain_callable(found.value)
    return found is INNER


def element(found: Known) -> Known:
    """What an element, attribute or iteration of a value is."""
    if found is None or (isinstance(found, Held) and (constant(found.value) or of_constants(found.value))):
        return None
    return INNER


def joined(a: Known, b: Known) -> Known:
    """One of two."""
    if a is None or b is None:
        return a or b
    return a if isinstance(a, Held) and isinstance(b, Held) and a.value is b.value else INNER


@dataclass(eq=False)
class Scope:
    """Names of a function under reading: its own ones, those of the functions around it in the text, and the real function's outside."""

    function: types.FunctionType
    own: set[str]
    parent: Scope | None = None
    known: dict[str, Known] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)  # global or nonlocal

    def holder(self, name: str) -> Scope | None:
        """The scope that a name is local to, or None when it comes from outside."""
        if name in self.own and name not in self.declared:
            return self
        return self.parent.holder(name) if self.parent is not None else None

    def outside(self, name: str) -> Held | None:
        """A name that is no scope's own: of the closure, the module or the builtins."""
        cells = dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True))
        if name in cells:
            try:
                return Held(cells[name].cell_contents)
            except ValueError:  # not assigned yet
                return None
        found = self.function.__globals__
        if name in found:
            return Held(found[name])
        built = found.get("__builtins__", {})
        built = vars(built) if isinstance(built, types.ModuleType) else built
        return Held(built[name]) if name in built else None


def own_names(node: ast.AST) -> set[str]:
    """Names that a function (or comprehension) binds itself; nested functions bind their own."""
    found: set[str] = set()
    arguments = getattr(node, "args", None)
    if isinstance(arguments, ast.arguments):
        found |= {argument.arg for argument in ast.walk(arguments) if isinstance(argument, ast.arg)}
    body = getattr(node, "body", None)
    todo: list[ast.AST] = list(body) if isinstance(body, list) else [body] if body is not None else []
    todo += getattr(node, "generators", [])
    while todo:
        inner = todo.pop()
        found |= bound_by(inner)
        if not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(inner)
    return found


def bound_by(node: ast.AST) -> set[str]:
    """Names that one node binds, without what is inside of it."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, ast.ExceptHandler) and node.name:
        return {node.name}
    return set()


def bindings(function: types.FunctionType, arguments: Sequence[Known], keywords: Mapping[str, Known]) -> dict[str, Known]:
    """What the parameters of a function are known to be in a call; a default that is not given is known too."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    found: dict[str, Known] = {
        name: Held(value) for name, value in zip(names[len(names) - len(defaults) :], defaults, strict=True)
    }
    found.update({name: Held(value) for name, value in (function.__kwdefaults__ or {}).items()})
    found.update(zip(names, arguments, strict=False))
    found.update(keywords)
    rest = arguments[len(names) :]
    if any(map(borrowed, rest)):
        varargs = code.co_varnames[code.co_argcount + code.co_kwonlyargcount : code.co_argcount + code.co_kwonlyargcount + 1]
        found.update(dict.fromkeys(varargs, INNER))
    return found

"""What the reader knows of a value inside a function: made here, taken from outside (known or not), and the names of a scope."""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from outpace.tune.data.purity.values import constant, of_constants, plain_callable


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

"""A place in a function under reading: judges the values from outside that are read there, and words what speaks against them."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
import types
from typing import Any, Protocol

from outpace.tune.purity import sources, text, values
from outpace.tune.purity.values import Doubt, Held, Known, bindings, borrowed, element


class Reads(Protocol):
    """What reads the functions that a function calls (see reading.py). generates: the first of them may be a generator.
    files: all that the user wrote and that is loaded, and what is still to run of it; `rest`: the latter by file."""

    generates: bool
    files: list[text.FileFacts]
    rest: dict[text.FileFacts, text.FileFacts]

    def call(self, target: Any, arguments: list[Known], keywords: dict[str, Known], where: str, depth: int) -> Known:
        """Read what is called."""

    def function(self, target: types.FunctionType, bound: dict[str, Known], where: str, depth: int) -> Known:
        """Read a function."""

    def whole_class(self, kind: type, own: Any, where: str, depth: int) -> None:
        """Read every method."""


class Site:
    """One function under reading: its file, and how deep below the first one it is called."""

    def __init__(self, reader: Reads, target: types.FunctionType, depth: int) -> None:
        self.reader, self.target, self.depth = reader, target, depth
        self.file = text.file_facts(target.__code__.co_filename)

    def at(self, node: ast.AST) -> str:
        """`file:line` of a node."""
        if text.generated(self.target.__code__):
            return f"in {self.target.__name__}, as AutoGraph converted it"
        return f"{self.target.__code__.co_filename}:{getattr(node, 'lineno', self.target.__code__.co_firstlineno)}"

    def doubt(self, node: ast.AST, what: str) -> Doubt:
        """What speaks against the function, with its line."""
        return Doubt(f"{what} ({self.at(node)})")

    def outside(self, name: str, whole: str, found: Held | None, node: ast.AST) -> Held:
        """A name from outside, once it is judged; `whole`: the dotted name that it begins."""
        if found is None:
            raise self.doubt(node, f"{name} has no value yet")
        self._reassigned(self.file, name, found, node)
        self._changed_elsewhere(name, found, node)
        self.judge(found.value, whole if isinstance(found.value, types.ModuleType) else name, node)
        return found

    def _reassigned(self, file: text.FileFacts | None, name: str, found: Held, node: ast.AST) -> None:
        """A name of a file is no constant where another function of that file assigns or changes it."""
        if file is None:
            return
        line = file.rebound.get(name)
        if line is not None:
            raise self.doubt(node, f"{name} is assigned again by a function (line {line})")
        line = self.reader.rest[file].rebound.get(name) if file in self.reader.rest else None
        if line is not None:
            raise self.doubt(node, f"{name} is assigned again (line {line})")
        if borrowed(found) and name in file.changed:
            raise self.doubt(node, f"{name} is changed by a function (line {file.changed[name]})")

    def _changed_elsewhere(self, name: str, found: Held, node: ast.AST) -> None:
        """A value that lives on may be changed by a function of any of the user's files, under this name or as what a function is given;
        and every name of a file that reaches for `globals()`."""
        files = self.reader.files
        if self.file in files and text.ANY in self.file.rebound and name in self.target.__globals__:
            raise self.doubt(node, f"{name} may be assigned by a function (line {self.file.rebound[text.ANY]})")
        if not borrowed(found):
            return
        for file in files:
            line = file.reached.get(name)
            line = line or next(
                (at for callee, at in file.given.get(name, ()) if any(callee in other.changing for other in files)), None
            )
            if line is not None:
                raise self.doubt(node, f"{name} is changed by a function (line {line})")

    def _assigned(self, owner: Any, name: str) -> int | None:
        """The line where a function of the user's stores an attribute of that name in such an owner. What is not the user's has many attributes
        of everyday names: there the file of the function itself is asked."""
        own = [self.file] if self.file is not None else []
        files = [*own, *self.reader.files] if values.users_object(owner) or text.of_user(owner) else own
        kinds = [text.ANY, *(kind.__name__ for kind in (owner if isinstance(owner, type) else type(owner)).__mro__)]
        stores = (file.attributes.get(name, {}) for file in files)
        return next((lines[kind] for lines in stores for kind in kinds if kind in lines), None)

    def member(self, owner: Any, name: str, node: ast.AST) -> Known:
        """An attribute of a value from outside."""
        called = f"{called_name(owner)}.{name}"
        users = not isinstance(owner, (types.ModuleType, type)) and values.users_object(owner)
        if isinstance(owner, types.ModuleType) and name not in sources.PARTLY.get(owner.__name__, {name}):
            raise self.doubt(node, f"{called} is more than a function of its arguments")
        if not users and not isinstance(owner, (types.ModuleType, type)):
            return element(Held(owner))
        line = self._assigned(owner, name) if users or not sources.library(values.module_of(owner)) else None
        if line is not None:
            raise self.doubt(node, f"{called} is assigned by a function (line {line})")
        found_property = inspect.getattr_static(type(owner), name, None) if users else None
        if isinstance(found_property, property) and isinstance(found_property.fget, types.FunctionType):
            bound = bindings(found_property.fget, [Held(owner)], {})
            return self.reader.function(found_property.fget, bound, self.at(node), self.depth + 1)
        return self._looked_up(owner, name, called, node)

    def _looked_up(self, owner: Any, name: str, called: str, node: ast.AST) -> Held:
        try:
            found = Held(getattr(owner, name))
        except Exception as error:
            raise self.doubt(node, f"{called} cannot be found") from error
        if isinstance(owner, types.ModuleType) and not sources.library(owner.__name__):
            self._reassigned(text.file_facts(str(getattr(owner, "__file__", ""))), name, found, node)
        self.judge(found.value, called, node)
        return found

    def module(self, whole: str, node: ast.AST) -> Held:
        """A module that the function imports."""
        reason = sources.changing(whole)
        if reason is not None:
            raise self.doubt(node, f"{whole} {reason}")
        if whole not in sys.modules and not sources.library(whole):
            raise self.doubt(node, f"{whole} is not loaded yet, so what it does is not known")
        try:
            return Held(importlib.import_module(whole))
        except Exception as error:
            raise self.doubt(node, f"{whole} cannot be imported") from error

    def judge(self, value: Any, called: str, node: ast.AST) -> None:
        """A value from outside that is read: state that moves, a source of change, or a function or class to read as well."""
        while isinstance(value, functools.partial):
            value = value.func
        reason = values.state(value)
        if reason is None and values.plain_callable(value):
            reason = _changes(value)
        if reason is not None:
            raise self.doubt(node, f"{called} {reason}")
        for inner in values.content(value):  # any of them may be called
            self._judge_inside(inner, f"an element of {called}", node)
        if not values.plain_callable(value) or isinstance(value, types.ModuleType) or sources.library(values.module_of(value)):
            return
        if isinstance(value, type):
            self.reader.whole_class(value, None, self.at(node), self.depth)
        elif isinstance(value, types.FunctionType) or hasattr(value, "__wrapped__"):
            self.reader.call(value, [], {}, self.at(node), self.depth + 1)
        elif not isinstance(value, types.MethodType):  # a method is read where it is called, with its object
            module = values.module_of(value)
            raise self.doubt(node, f"{called} belongs to {module}, which is not known to compute from its arguments alone")

    def _judge_inside(self, value: Any, called: str, node: ast.AST) -> None:
        """What a container holds: functions are read, and of a user's object every method."""
        if not values.plain_callable(value) and values.users_object(value):
            self.reader.whole_class(type(value), value, self.at(node), self.depth)
        else:
            self.judge(value, called, node)


def _changes(value: Any) -> str | None:
    """What a function, class or module does that is more than a function of arguments, by its names."""
    module, short = values.module_of(value), str(getattr(value, "__name__", ""))
    reason = sources.changing(module)
    if reason is not None or isinstance(value, types.ModuleType):
        return reason
    if module == "builtins" and isinstance(value, types.BuiltinFunctionType):
        return sources.BUILTINS.get(short)
    if sources.library(module) and sources.CHANCE.search(short):
        return "draws random numbers or reads the clock"
    return "writes files" if sources.library(module) and sources.WRITES.search(short) else None


def called_name(value: Any) -> str:
    """How sentences name a function, module or object."""
    return str(getattr(value, "__name__", None) or type(value).__name__)

"""Reads a Python function, and those that it calls, for what makes it more than a function of its arguments.

It follows values from outside through names, attributes, calls and loops, and stops at the first thing that speaks against the function.
The order of statements is not regarded: a name is whatever it is assigned anywhere.
"""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

from outpace.tune.purity import sources, text, values
from outpace.tune.purity.body import Body
from outpace.tune.purity.site import Site, called_name
from outpace.tune.purity.text import rest_of_program
from outpace.tune.purity.values import INNER, Doubt, Held, Known, bindings, borrowed, joined

_DEEPEST = 8  # calls of user functions by user functions
_CONSTRUCTORS = frozenset({"__init__", "__post_init__", "__new__", "__setstate__", "__init_subclass__"})


def doubt(function: Any) -> str | None:
    """What speaks against a Python function being a function of its arguments, with name, file and line; None when its code shows nothing."""
    return _doubt(Reader(), function)


def doubt_of_generator(function: Any) -> str | None:
    """What speaks against a generator function giving the same elements whenever it is called; None when its code shows nothing."""
    target = inspect.unwrap(function) if inspect.isfunction(function) else function
    if not inspect.isgeneratorfunction(target) and not inspect.isgeneratorfunction(
        inspect.getattr_static(type(target), "__call__", None)
    ):
        return f"{called_name(function)} is no generator function, so that what it gives cannot be read"
    return _doubt(Reader(generates=True), function)


def _doubt(reader: Reader, function: Any) -> str | None:
    try:
        reader.call(function, [], {}, called_name(function), 0)
    except Doubt as found:
        return str(found)
    except RecursionError:
        return f"{called_name(function)} is nested too deeply to be read"
    return None


class Reader:
    """Reads one function and everything of the user's below it; each is read once for the same known arguments.

    generates: the function itself may be a generator, whose elements are then what is judged."""

    def __init__(self, generates: bool = False) -> None:
        self.generates = generates
        self.rest = rest_of_program()
        self.files = [*text.users_files(), *self.rest.values()]  # once: it looks at every module that is loaded
        self._results: dict[tuple[Any, ...], Known] = {}
        self._kept: list[Any] = []  # so that no id in the keys above is used again

    def call(self, target: Any, arguments: list[Known], keywords: dict[str, Known], where: str, depth: int) -> Known:
        """What a call of a callable from outside gives. Raises Doubt."""
        if isinstance(target, functools.partial):
            bound = [Held(value) for value in target.args]
            named = {name: Held(value) for name, value in target.keywords.items()}
            return self.call(target.func, [*bound, *arguments], {**named, **keywords}, where, depth)
        if isinstance(target, types.MethodType):
            return self.call(target.__func__, [Held(target.__self__), *arguments], keywords, where, depth)
        reason = values.state(target)
        if reason is not None:
            raise Doubt(f"{called_name(target)} {reason} ({where})")
        if sources.library(values.module_of(target)) or sources.changing(values.module_of(target)):
            return self._library(target, arguments, keywords, where)
        if isinstance(target, type):
            self.whole_class(target, None, where, depth)
            return INNER if any(map(borrowed, [*arguments, *keywords.values()])) else None
        return self._users(target, arguments, keywords, where, depth)

    def _library(self, target: Any, arguments: list[Known], keywords: dict[str, Known], where: str) -> Known:
        """A call of a library's function: judged by its name, and by what it is given."""
        reason = sources.changing(values.module_of(target))
        if reason is not None:
            raise Doubt(f"{called_name(target)} {reason} ({where})")
        name = called_name(target)
        first = arguments[:1] if name in sources.CHANGES_ARGUMENT else []
        if any(map(borrowed, [*first, keywords.get("out")])):
            raise Doubt(f"{name} changes a value that lives on after the call ({where})")
        shared = any(map(borrowed, [*arguments, *keywords.values()]))
        return INNER if shared and name not in sources.FRESH_RESULT else None

    def _users(self, target: Any, arguments: list[Known], keywords: dict[str, Known], where: str, depth: int) -> Known:
        if isinstance(target, types.FunctionType):
            return self.function(target, bindings(target, arguments, keywords), where, depth)
        wrapped = getattr(target, "__wrapped__", None)
        if wrapped is not None:  # functools.lru_cache, tf.function
            return self.call(wrapped, arguments, keywords, where, depth)
        method = inspect.getattr_static(type(target), "__call__", None)
        if values.users_object(target) and isinstance(method, types.FunctionType):
            return self.function(method, bindings(method, [Held(target), *arguments], keywords), where, depth)
        raise Doubt(f"{called_name(target)} is code that cannot be read ({where})")

    def function(self, target: types.FunctionType, bound: dict[str, Known], where: str, depth: int) -> Known:
        """Read a function with what is known of its parameters; gives what is known of its result. Raises Doubt."""
        key = (target, *((name, id(v.value) if isinstance(v, Held) else v) for name, v in sorted(bound.items())))
        if key in self._results:
            return self._results[key]
        self._kept.append(bound)
        self._results[key] = INNER if any(map(borrowed, bound.values())) else None  # for a call of itself
        if depth > _DEEPEST:
            raise Doubt(f"functions call each other more than {_DEEPEST} deep, and were not all read ({where})")
        nodes = text.definitions(target.__code__)
        if not nodes:
            raise Doubt(f"the source text of {target.__qualname__} cannot be read ({where})")
        result: Known = None
        for node in nodes:
            result = joined(result, Body(Site(self, target, depth), node, bound).read())
        self._results[key] = result
        return result

    def whole_class(self, kind: type, own: Any, where: str, depth: int) -> None:
        """Read every method of a user's class, since nobody can say which ones an object's user calls. `own`: the object, if it is known."""
        for base in kind.__mro__:
            if sources.library(base.__module__) or hasattr(base, "_fields"):
                continue
            for member in vars(base).values():
                inner = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if not isinstance(inner, types.FunctionType) or inner.__code__.co_filename == "<string>":  # a data class's own
                    continue
                if own is None:
                    self.function(inner, bindings(inner, [], {}), where, depth + 1)
                elif inner.__name__ not in _CONSTRUCTORS:
                    first = [] if isinstance(member, staticmethod) else [Held(own)]
                    self.function(inner, bindings(inner, first, {}), where, depth + 1)

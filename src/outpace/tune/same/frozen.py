# SPDX-License-Identifier: Apache-2.0
"""What compiled functions keep of Python's state: what the user's functions read while they were
traced, and whether it has changed since.

A traced function runs once, and what it read then is part of what runs from then on. Variables of a
framework are read at each call.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from outpace.capture.stacks import owner_of
from outpace.frameworks.jax import JAXPR_TRACE, SET_TRACE, TRACE_TO_JAXPR
from outpace.frameworks.keras import LAYERS
from outpace.frameworks.private import PrivateName
from outpace.frameworks.tensorflow import TRACE_GRAPH
from outpace.tune.same.reads import Read, reads_of
from outpace.tune.same.state import Reader, array_of, empty, is_filled, quiet
from outpace.tune.same.stores import Kept

MOST_LEAVES = 2000  # of a value that is read as a whole
FEW_NUMBERS = 256  # of an array, where it is looked at often
MOST_NUMBERS = 1 << 20  # of an array that is compared by its numbers, else by which array it is
_DEEPEST = 6
_TRACED = object()
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, np.generic, np.dtype)
_CODE = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type)
_CODE_FILES = (".py", ".pyc", ".so")
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_FRAMEWORKS = ("tensorflow", "jax", "jaxlib", "keras", "tf_keras", "torch")
Getter = Callable[[], Any]


class Frozen:
    """Watches the traces of a process. users: whether a file is one of the user's. changed: by the
    text of what was read, the function that keeps an old value; changes: how often. opaque:
    likewise what cannot be compared, with its type. rewritten: code of which a copy ran, which
    tells nothing of its branches. known: what may change, as pairs of a read's text and a function.
    """

    def __init__(self, users: Callable[[str], bool]) -> None:
        self._users, self._reader = users, Reader(users)
        self._functions: dict[CodeType, list[FunctionType]] = {}
        self._running: list[tuple[CodeType, dict[str, Any], dict[str, Any], dict[str, Any]]] = []
        self._depth, self._paused = 0, False
        self._entries: dict[tuple[CodeType, Read], tuple[Getter, Any, Any]] = {}
        self.known: set[tuple[str, str]] = set()
        self.changed: dict[str, str] = {}
        self.changes = 0
        self.opaque: dict[str, str] = {}
        self.rewritten: set[CodeType] = set()

    @property
    def kept(self) -> frozenset[Kept]:
        """Plain values that functions keep, and arrays, as their texts name them."""
        return frozenset(
            Kept(
                str(read),
                code.co_name,
                read.last,
                read.owner,
                read.root in code.co_freevars,
                read.steps[-1][0] if read.steps else "",
            )
            for (code, read), (_, held, _) in self._entries.items()
            if not _fixed(held) and not read.of_parameter
        )

    def on_jax(self, jax: ModuleType) -> None:
        """Of all that JAX makes an expression of."""
        kind, plain = JAXPR_TRACE.value, SET_TRACE.value
        if plain is None:
            self._around(TRACE_TO_JAXPR)
            return

        @contextlib.contextmanager
        def set_current_trace(trace: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
            with (
                self.watching() if isinstance(trace, kind) else contextlib.nullcontext(),
                plain(trace, *args, **kwargs) as found,
            ):
                yield found

        SET_TRACE.replace(set_current_trace)

    def on_tensorflow(self, tf: ModuleType) -> None:
        """Of all that TensorFlow makes a graph of."""
        self._around(TRACE_GRAPH)

    def _around(self, name: PrivateName) -> None:
        plain = name.value

        def watched(*args: Any, **kwargs: Any) -> Any:
            with self.watching():
                return plain(*args, **kwargs)

        name.replace(watched)

    def on_files(self) -> None:
        """Of all files that a trace reads."""
        sys.addaudithook(self._opened)

    def _opened(self, event: str, details: tuple[Any, ...]) -> None:
        if event != "open" or not self._depth or not isinstance(details[0], (str, bytes)):
            return
        if details[1] is None or set(details[1]) & set("wax"):  # of `os.open`, or to be written
            return
        name = os.fsdecode(details[0])
        if not name.endswith(_CODE_FILES) and owner_of(os.path.abspath(name)) == "":
            self.opaque[f"what it reads in {os.path.basename(name)}"] = "file"

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What is traced meanwhile is not kept."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """What the user's functions read meanwhile is kept: they are traced, or make what is used
        later.
        """
        if self._paused:
            yield
            return
        self._depth += 1
        before = sys.getprofile()
        if self._depth == 1:
            sys.setprofile(self._called)
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                sys.setprofile(before)
                self._traced()

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_name == "converted_call" and "autograph" in code.co_filename:  # which runs a rewritten copy
            self._converted(frame)
        elif self._users(code.co_filename) and reads_of(code):
            names = frame.f_locals
            given = {name: names[name] for name in code.co_varnames[: _given(code)] if name in names}
            held = tuple(names.get(name) for name in code.co_freevars)
            self._running.append((code, frame.f_globals, given, self._closure(code, held)))

    def _converted(self, frame: FrameType) -> None:
        function: Any = frame.f_locals.get("f")
        given = tuple(frame.f_locals.get("args") or ())
        if isinstance(function, MethodType):
            function, given = function.__func__, (function.__self__, *given)
        if isinstance(function, FunctionType) and self._users(function.__code__.co_filename):
            code = function.__code__
            self.rewritten.add(code)
            closure = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
            self._running.append((code, function.__globals__, dict(zip(code.co_varnames, given, strict=False)), closure))

    def _traced(self) -> None:
        """The outermost trace is over: what its functions have read, as it is now that whatever is
        built at first is there.
        """
        running, self._running, self._functions = self._running, [], {}
        for code, names, given, closure in running:
            for each in reads_of(code):
                read = replace(each, handed="") if _of_python(each.handed, names) else each
                if read.root in code.co_freevars and read.root not in closure:
                    continue  # of a function that is gone
                getter = self._getter(read, names, given, closure)
                if getter is not None and (held := self._print(getter, read)) is not None:
                    self._entries[code, read] = getter, held, self._print(getter, read, quick=True)

    def _closure(self, code: CodeType, held: tuple[Any, ...]) -> dict[str, Any]:
        """The cells of the function that ran; a frame shows no more than what they held."""
        if not code.co_freevars:
            return {}
        for search in (False, True):
            if search:
                self._functions[code] = [each for each in gc.get_referrers(code) if isinstance(each, FunctionType)]
            for function in self._functions.get(code, ()):
                cells = function.__closure__ or ()
                if all(not is_filled(cell) or cell.cell_contents is value for cell, value in zip(cells, held, strict=True)):
                    return dict(zip(code.co_freevars, cells, strict=True))
        return {}

    def _getter(self, read: Read, names: dict[str, Any], given: dict[str, Any], closure: dict[str, Any]) -> Getter | None:
        if read.given:
            if read.root not in given or _framework(value := given[read.root]):
                return None
            if not read.steps and (
                read.handed or not self._users(getattr(sys.modules.get(type(value).__module__), "__file__", None) or "<")
            ):
                return None  # an argument: what it holds is no part of the function
            return lambda: _taken(given[read.root], read)
        if read.root in closure:
            return lambda: _taken(closure[read.root].cell_contents, read)
        return (lambda: _taken(names[read.root], read)) if read.root in names else None

    def check(self, quick: bool = False) -> None:
        """Note what is no longer what it was when it was read. quick: of large arrays some numbers
        are looked at.
        """
        if self._depth:  # what is read now is kept as it is afterwards
            return
        for (code, read), (getter, held, looks) in list(self._entries.items()):
            said = str(read), code.co_name
            if said not in self.known and self._print(getter, read, quick) != (looks if quick else held):
                self.changed[said[0]] = said[1]
                self.changes += 1
                self._entries[code, read] = getter, self._print(getter, read), self._print(getter, read, quick=True)

    def _print(self, getter: Getter, read: Read, quick: bool = False) -> Any:
        """What a value is, to be compared; None for what no trace keeps."""
        try:
            value = getter()
        except Exception:  # whatever is not there, or an object of the user's raises
            return (("", ("none",)),)
        if read.handed and not isinstance(value, (*_PLAIN, dict, list, tuple, np.ndarray)):
            return None  # the function that gets it reads it
        leaves: list[Any] = []
        waiting, seen = [("", value, 0)], set()
        while waiting and len(leaves) < MOST_LEAVES:
            path, each, depth = waiting.pop()
            leaf = _leaf(each, quick)
            if leaf is _TRACED:
                return None
            if leaf is not None:
                leaves.append((path, leaf))
            elif id(each) not in seen and depth < _DEEPEST:
                seen.add(id(each))
                parts = self._parts(each)
                waiting += [(path + name, part, depth + 1) for name, part in parts]
                if not parts and not (_framework(each) or empty(each) or quiet(each)):
                    self.opaque[str(read)] = type(each).__name__
        return tuple(leaves)

    def _parts(self, value: Any) -> list[tuple[str, Any]]:
        if _framework(value):  # what its libraries' functions read of it beside its variables
            held = getattr(value, "__dict__", {})
            plain = [(f".{key}", each) for key, each in list(held.items()) if isinstance(each, _PLAIN)]
            return [*plain, *((f"[{at}]", each) for at, each in enumerate(held.get(LAYERS.name) or ()))]
        try:
            return list(self._reader.parts(value))
        except Exception:  # whatever an object of the user's raises when it is looked at
            return []


def _taken(value: Any, read: Read) -> Any:
    """What is at the end of a chain; an object, where the last thing is a method of it that is not
    the user's.
    """
    for at, (kind, key) in enumerate(read.steps):
        if kind == "[":
            value = value[key]
            continue
        if isinstance(getattr(type(value), key, None), property) and not _framework(value):
            return None  # which runs, and is read itself
        found = getattr(value, key)
        if (
            at == len(read.steps) - 1
            and callable(found)
            and not isinstance(value, ModuleType)
            and not isinstance(found, MethodType)
        ):
            return value if isinstance(found, BuiltinFunctionType) else found
        value = found
    return value


def _leaf(value: Any, quick: bool) -> Any:
    """A value that has no parts, to be compared; None for one that has."""
    if isinstance(value, _PLAIN):
        return type(value).__name__, repr(value)
    if isinstance(value, _CODE):
        return "code", getattr(value, "__qualname__", getattr(value, "__name__", ""))
    if "Tracer" in type(value).__name__ or (hasattr(value, "graph") and hasattr(value, "op")):
        return _TRACED
    if hasattr(value, "assign") and hasattr(value, "dtype") and hasattr(value, "shape"):
        return "variable", id(value)
    if hasattr(type(value), "__array__") and hasattr(value, "shape") and hasattr(value, "dtype"):
        return _array(value, quick)
    return None


def _array(value: Any, quick: bool) -> Any:
    if quick and isinstance(value, np.ndarray) and value.size > FEW_NUMBERS:
        return "array", id(value), value.shape, hash(value.flat[:: value.size // FEW_NUMBERS].tobytes())
    if quick and getattr(value, "size", 0) > FEW_NUMBERS:
        return "array", id(value)  # which no statement changes in place
    if getattr(value, "size", MOST_NUMBERS + 1) > MOST_NUMBERS:
        return "array", id(value)
    found = array_of(value)
    return ("array", id(value)) if found is None else ("array", str(found.dtype), found.shape, hash(found.tobytes()))


def _of_python(text: str, names: Mapping[str, Any]) -> bool:
    """Whether a text that is called means a function of Python's own library, which reads what it
    is given.
    """
    root, *steps = text.split(".")
    found = names.get(root)
    for each in steps:
        found = getattr(found, each, None) if isinstance(found, ModuleType) else None
    return isinstance(found, FunctionType) and found.__code__.co_filename.startswith(_LIBRARY)


def _framework(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _FRAMEWORKS


def _fixed(held: Any) -> bool:
    """Whether a value is of code and variables alone, which a trace does not keep."""
    return bool(held) and all(leaf[0] in ("code", "variable") for _, leaf in held)


def _given(code: CodeType) -> int:
    """How many of a function's first variables are parameters."""
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)

# SPDX-License-Identifier: Apache-2.0
"""The state that a program holds, by path of names: numbers and texts, in frames, modules, objects,
closures, containers, iterators.

A container is read once; further paths to it are aliases. Standard library and NumPy; frameworks
are read by the protocols of their values.
"""

from __future__ import annotations

import argparse
import array
import builtins
import collections
import contextvars
import ctypes
import datetime
import dis
import functools
import inspect
import io
import itertools
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from outpace._dataclass import dataclass

MOST_NODES = 200_000  # containers that are read
BEYOND = "..."  # instead of a path, where there are more
MOST_ITEMS = 50_000  # of one container
DEEPEST = 24  # names of a path
MOST_BYTES = 1 << 30  # of arrays in all readings; from then on large ones are sampled
SAMPLE = 4096  # numbers that stand for a large array, beside its sums
_LONGEST_TEXT = 4096
_LONG_LIST = 10_000  # items
_NUMBERS = (bool, int, float, complex, np.generic)
_TIMES = (datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo)
_TEXTS = (str, bytes, bytearray, range, slice, Enum, type(Ellipsis), np.dtype, *_TIMES)
# What holds nothing of a program's meaning, by the module of its class.
_PLAIN = (str, bytes, int, type(None))  # of which a tuple is one value
_CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque)
_QUIET = frozenset({"_thread", "logging", "importlib", "typing", "re", "io", "_io", "abc", "contextlib", "warnings", "inspect",
                    "subprocess", "socket", "traceback", "argparse", "rich", "tqdm", "absl"})  # fmt: skip
_HOLDERS = (
    argparse.Namespace,
    threading.local,
    io.BytesIO,
    io.StringIO,
)  # of those modules, and yet what a program keeps in them is its own
# Libraries whose objects are read by their variables alone, not by their attributes.
_BY_VARIABLES = frozenset({"tensorflow", "keras", "tf_keras", "jax", "jaxlib", "numpy", "pandas", "torch"})
_VARIABLES = ("variables", "optimizer", "metrics", "inner_optimizer")
_HELD: tuple[Any, ...] = ([], (), {}, {}.keys(), {}.values(), {}.items(), set(), "", b"", range(1), range(1 << 65), np.empty(1))
_ITERATORS = (
    *(type(iter(each)) for each in _HELD), type(reversed([])), enumerate, zip, map, filter, reversed, itertools.count, itertools.chain,
    itertools.islice, itertools.cycle, itertools.repeat, itertools.accumulate, itertools.starmap, itertools.takewhile, itertools.product,
    itertools.permutations, itertools.combinations,
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """One reading. values: a number (NumPy array) or text by path. aliases: the path under which a
    container was read, by further paths to it. unread: the types of objects that tell nothing of
    what they hold, by path. sampled: paths whose array is a sample.
    """

    values: Mapping[str, Any]
    aliases: Mapping[str, str]
    unread: Mapping[str, str]
    sampled: frozenset[str] = frozenset()

    def find(self, path: str) -> Any:
        """The value at a path, also where a container on the way was read under another; None for
        none.
        """
        for _ in range(DEEPEST):
            if path in self.values:
                return self.values[path]
            ends = [at for at in range(len(path), 0, -1) if path[:at] in self.aliases]
            if not ends:
                return None
            path = self.aliases[path[: ends[0]]] + path[ends[0] :]
        return None


@dataclass(eq=False)
class Reader:
    """Reads states. users: whether a file is one of the user's. kept: by path the array that was
    read last: one that has not changed is kept once.
    """

    users: Callable[[str], bool]
    kept: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    bytes: int = 0
    _values: dict[str, Any] = field(default_factory=dict)
    _aliases: dict[str, str] = field(default_factory=dict)
    _unread: dict[str, str] = field(default_factory=dict)
    _seen: dict[int, tuple[str, Any]] = field(default_factory=dict)
    _queue: collections.deque[tuple[str, Any, int]] = field(default_factory=collections.deque)
    _sampled: set[str] = field(default_factory=set)

    def read(self, frame: FrameType | None, more: Mapping[str, Any] | None = None) -> State:
        """What the user's functions on the stack hold from a frame on, what the user's modules
        hold, Python's and NumPy's random numbers, and `more` by name.
        """
        return self._all(self.roots(frame, more or {}))

    def of(self, held: Mapping[str, Any]) -> State:
        """What some objects hold, by name."""
        return self._all(held.items())

    def _all(self, roots: Iterable[tuple[str, Any]]) -> State:
        self._values, self._aliases, self._unread, self._seen, self._sampled = {}, {}, {}, {}, set()
        self._queue.clear()
        for path, value in roots:
            self._queue.append((path, value, 0))
        while self._queue and len(self._seen) < MOST_NODES:
            self._one(*self._queue.popleft())
        self._seen = {}  # which held whatever was read
        if self._queue:
            self._unread[BEYOND] = f"more than {MOST_NODES:,} objects"
        return State(self._values, self._aliases, self._unread, frozenset(self._sampled))

    def roots(self, frame: FrameType | None, more: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Names and what they hold, the innermost function's first."""
        yield from more.items()
        for each in frames_of(frame, self.users):
            if each.f_code.co_name != "<module>":
                name = getattr(each.f_code, "co_qualname", each.f_code.co_name)
                yield from ((f"{name}:{key}", value) for key, value in list(each.f_locals.items()) if not key.startswith("."))
        for module in modules_of(self.users):
            for key, value in list(vars(module).items()):
                if not key.startswith("__") and not isinstance(value, ModuleType):
                    yield f"{module.__name__}.{key}", value
        yield "random", random.getstate()
        yield "numpy.random", np.random.get_state(legacy=False)

    def _one(self, path: str, value: Any, depth: int) -> None:
        if value is None:
            self._values[path] = "None"
            return
        if isinstance(value, _TEXTS) or _is_row(value):
            self._values[path] = _text(value)
            return
        number = array_of(value)
        if number is not None:
            self._keep(path, number)
            if not self._own(type(value)):  # an object of the user's may hold more than its array
                return
        if isinstance(value, int):  # one that no array holds, as the states of NumPy's generators
            self._values[path] = _text(value)
            return
        if isinstance(value, (ModuleType, types.BuiltinFunctionType, types.CodeType, FrameType)) or quiet(value):
            return
        seen = self._seen.get(id(value))
        if seen is not None:
            self._aliases[path] = seen[0]
            return
        self._seen[id(value)] = (path, value)
        if (numbers := _as_array(value)) is not None:
            self._keep(path, numbers)
            return
        if depth > DEEPEST:
            self._unread[path] = type(value).__name__
            return
        self._inside(path, value, depth)

    def _inside(self, path: str, value: Any, depth: int) -> None:
        try:
            held = list(itertools.islice(self.parts(value), MOST_ITEMS + 1))
        except Exception as error:  # whatever an object of the user's raises when it is looked at
            self._unread[path] = f"{type(value).__name__} ({type(error).__name__})"
            return
        if not held and not empty(value):
            self._unread[path] = type(value).__name__
        if len(held) > MOST_ITEMS:
            self._unread[path] = f"{type(value).__name__} of more than {MOST_ITEMS:,} items"
        for name, each in held[:MOST_ITEMS]:
            self._queue.append((path + name, each, depth + 1))

    def parts(self, value: Any) -> Iterator[tuple[str, Any]]:
        """What an object consists of, by the end of its path."""
        if isinstance(value, Mapping):
            yield from (
                (f"[{key!r}]" if _plain(key) else f"[#{at}]", each) for at, (key, each) in enumerate(list(value.items()))
            )
        elif isinstance(value, (list, tuple, collections.deque)) or (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
            yield from (
                (f"[{at}]", each)
                for at, each in enumerate(value.ravel().tolist() if isinstance(value, np.ndarray) else list(value))
            )
        elif isinstance(value, np.ndarray) and value.dtype.names:
            yield from ((f"[{name!r}]", value[name]) for name in value.dtype.names)
        elif isinstance(value, (set, frozenset)):
            yield "{}", sorted(map(_text, value))
        else:
            yield from self._of_object(value)
        if isinstance(value, _CONTAINERS) and hasattr(value, "__dict__"):
            yield from _attributes(value)

    def _of_object(self, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, types.FunctionType):
            yield from self._of_function(value)
        elif isinstance(value, type):
            if self._own(value):
                yield from ((f".{key}", each) for key, each in list(vars(value).items()) if not key.startswith("__"))
        else:
            kinds = (read for kind, read in _BUILT_IN if isinstance(value, kind))
            read = next(kinds, None)
            yield from read(value) if read is not None else self._of_instance(value)

    def _of_function(self, value: types.FunctionType) -> Iterator[tuple[str, Any]]:
        wrapped = getattr(value, "__wrapped__", None)
        if self.users(value.__code__.co_filename):
            yield from (
                (f"<{name}>", cell) for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
            )
            yield from ((f".<default {at}>", each) for at, each in enumerate(value.__defaults__ or ()))
            yield from ((f".<default {name}>", each) for name, each in (value.__kwdefaults__ or {}).items())
            yield from ((f".{key}", each) for key, each in list(vars(value).items()) if key != "__wrapped__")
        elif wrapped is None:  # a library's decorator: what it closes over may be the user's
            held = (cell.cell_contents for cell in value.__closure__ or () if is_filled(cell))
            yield from ((f"<{at}>", each) for at, each in enumerate(held) if self._is_users(each))
        if wrapped is not None:
            yield "", wrapped

    def _of_instance(self, value: Any) -> Iterator[tuple[str, Any]]:
        for name in ("__wrapped__", "python_function"):  # a function that was compiled
            wrapped = _attribute(value, name)
            if callable(wrapped):
                yield "", wrapped
                if not self._own(type(value)):
                    return
        library = type(value).__module__.partition(".")[0]
        if parts := _framework_parts(library, value):
            yield from parts
        elif library == "torch" and callable(state := _attribute(value, "state_dict")):
            yield ".state_dict()", dict(state())
        elif library in _BY_VARIABLES:
            yield from self._by_variables(value)
        else:
            theirs = [base for base in type(value).__mro__ if base.__module__.partition(".")[0] in _BY_VARIABLES]
            if theirs:
                yield from self._by_variables(value)
            stored = frozenset[str]().union(*map(_stored, theirs))
            yield from ((name, each) for name, each in _attributes(value) if name.removeprefix(".") not in stored)

    def _by_variables(self, value: Any) -> Iterator[tuple[str, Any]]:
        for name in _VARIABLES:
            held = _attribute(value, name)
            if held is not None and not callable(held):
                yield f".{name}", list(held) if isinstance(held, Sequence) else held

    def _own(self, kind: type) -> bool:
        module = sys.modules.get(kind.__module__)
        return module is not None and self.users(getattr(module, "__file__", None) or "<")

    def _is_users(self, value: Any) -> bool:
        code = getattr(value, "__code__", None)
        return (code is not None and self.users(code.co_filename)) or self._own(type(value)) or isinstance(value, (dict, list))

    def _keep(self, path: str, number: np.ndarray[Any, Any]) -> None:
        before = self.kept.get(path)
        if before is not None and before.dtype == number.dtype and np.array_equal(before, number):
            self._values[path] = before
            return
        if number.nbytes > SAMPLE * 8 and self.bytes + number.nbytes > MOST_BYTES:
            flat = number.reshape(-1)
            at = np.linspace(0, flat.size - 1, SAMPLE).astype(np.int64)
            whole = flat.astype(np.float64) if flat.dtype.kind != "c" else np.abs(flat)
            number = np.concatenate([flat[at].astype(np.float64), [whole.sum(), np.abs(whole).sum(), np.square(whole).sum()]])
            self._sampled.add(path)
        self.bytes += number.nbytes
        self._values[path] = self.kept[path] = number.copy()


def read_values(value: Any, users: Callable[[str], bool]) -> Any:
    """What something holds, to be compared. Raises ValueError where that cannot be read."""
    found = Reader(users).of({"": value})
    if found.unread:
        raise ValueError(f"It holds a {next(iter(found.unread.values()))}, which cannot be compared.")
    return {
        path: each if isinstance(each, str) else (each.dtype, each.shape, each.tobytes()) for path, each in found.values.items()
    }


def _framework_parts(library: str, value: Any) -> list[tuple[str, Any]]:
    """Return the arrays of a framework's object that consists of some, as a sparse one does."""
    framework: Any = sys.modules.get(library)
    if library == "jax":
        leaves, _ = framework.tree_util.tree_flatten_with_path(value)
        return [(framework.tree_util.keystr(path), leaf) for path, leaf in leaves if path]
    if library == "tensorflow" and framework is not None and not hasattr(value, "assign"):
        parts = framework.nest.flatten(value, expand_composites=True)
        return [(f"<{at}>", part) for at, part in enumerate(parts)] if parts and parts[0] is not value else []
    return []


def frames_of(frame: FrameType | None, users: Callable[[str], bool]) -> Iterator[FrameType]:
    """The user's frames on the stack."""
    while frame is not None:
        if users(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def modules_of(users: Callable[[str], bool]) -> Iterator[ModuleType]:
    """The user's modules."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and users(getattr(module, "__file__", None) or "<"):
            yield module


def array_of(value: Any) -> np.ndarray[Any, Any] | None:
    """The numbers of a value that is one array, of any framework; None for what is none."""
    if isinstance(value, _NUMBERS):
        if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 62:
            return None
        return np.asarray(value)
    found: np.ndarray[Any, Any] | None = value if isinstance(value, np.ndarray) else None
    if found is None and hasattr(type(value), "__array__") and not isinstance(value, type):
        try:
            found = np.asarray(_plain_array(value))
        except Exception:  # a symbolic tensor, or an array that was given away
            return None
    if found is None or found.dtype.kind == "O":
        return None
    if found.dtype.kind == "V":  # bfloat16 and smaller numbers of machine learning
        try:
            return found.astype(np.float32)
        except (TypeError, ValueError):  # a record of several fields
            return None
    return found


def _as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """A long list of plain numbers as one array."""
    if type(value) is list and len(value) > _LONG_LIST and set(map(type, value)) <= {int, float, bool}:
        try:
            return np.asarray(value, np.float64)
        except OverflowError:
            return None
    return None


def _plain_array(value: Any) -> Any:
    """Random keys of JAX as their numbers, tensors of PyTorch without gradients."""
    module = type(value).__module__.partition(".")[0]
    if module in ("jax", "jaxlib") and str(getattr(value, "dtype", "")).startswith("key<"):
        return sys.modules["jax"].random.key_data(value)
    return value.detach().cpu() if module == "torch" else value


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} {len(text)} {hash(text)}"


def _is_row(value: Any) -> bool:
    """Whether it is a tuple of words and numbers, of which a corpus holds many."""
    return type(value) is tuple and str in map(type, value) and all(isinstance(each, _PLAIN) for each in value)


def _plain(key: Any) -> bool:
    if isinstance(key, tuple):
        return all(map(_plain, key))
    return isinstance(key, (str, int, float, bool, bytes, type(None), Enum))


def is_filled(cell: types.CellType) -> bool:
    """Whether a cell of a closure has a value that is not None."""
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def quiet(value: Any) -> bool:
    """Whether an object holds nothing of a program's meaning."""
    if value is vars(builtins):  # which `eval` and `exec` put into the names that they get
        return True
    return not isinstance(value, _HOLDERS) and type(value).__module__.partition(".")[0] in _QUIET


def empty(value: Any) -> bool:
    """Whether an object without parts tells all that it holds by that."""
    if isinstance(value, (Mapping, list, tuple, set, frozenset, collections.deque, types.FunctionType, type)):
        return True
    slots = any(hasattr(base, "__slots__") for base in type(value).__mro__)
    return type(value) is object or (type(value).__flags__ & (1 << 9) != 0 and not slots and hasattr(value, "__dict__"))


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict):
        yield from ((f".{key}", each) for key, each in list(held.items()))
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield f".{name}", getattr(value, name)


@functools.cache
def _stored(kind: type) -> frozenset[str]:
    """Names of the attributes that a class's own methods set: in a library's class they are the
    library's, not a program's.
    """
    functions = [getattr(each, "fset", each) for each in vars(kind).values()]
    codes = [each.__code__ for each in map(inspect.unwrap, filter(callable, functions)) if isinstance(each, types.FunctionType)]
    return frozenset(step.argval for code in codes for step in dis.get_instructions(code) if step.opname == "STORE_ATTR")


def _of_generator(value: Any) -> Iterator[tuple[str, Any]]:
    frame = getattr(value, "gi_frame", None) or getattr(value, "cr_frame", None)
    if frame is None:
        yield ".<ended>", True
        return
    yield ".<line>", frame.f_lineno - frame.f_code.co_firstlineno
    if (inner := getattr(value, "gi_yieldfrom", None)) is not None:
        yield ".<from>", inner
    yield from ((f".<{name}>", each) for name, each in list(frame.f_locals.items()))


def _of_iterator(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (itertools.count, itertools.repeat)):
        yield ".<state>", repr(value)
        return
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield ".<state>", tuple(value.__reduce__()[1:])


# How the parts of objects of Python's and NumPy's own are read.
_BUILT_IN: tuple[tuple[Any, Callable[[Any], Iterable[tuple[str, Any]]]], ...] = (
    (types.CellType, lambda value: [("", value.cell_contents)]),
    (types.MethodType, lambda value: [("", value.__self__), (".__func__", value.__func__)]),
    (functools.partial, lambda value: [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]),
    ((types.GeneratorType, types.CoroutineType), _of_generator),
    (_ITERATORS, _of_iterator),
    (random.Random, lambda value: [(".state", value.getstate())]),
    (np.random.Generator, lambda value: [(".state", value.bit_generator.state)]),
    (np.random.RandomState, lambda value: [(".state", value.get_state(legacy=False))]),
    ((io.BytesIO, io.StringIO), lambda value: [("", "") if value.closed else ("", value.getvalue())]),
    (weakref.ref, lambda value: [("", value())]),
    (contextvars.ContextVar, lambda value: [("", value.get(None))]),
    ((array.array, memoryview), lambda value: [("", np.asarray(value))]),
    ((ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union), lambda value: [("", bytes(value))]),
)

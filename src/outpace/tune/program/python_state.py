"""The state that Python functions of an input pipeline reach outside of themselves: kept before trials, put back after them.

A generator that counts, draws from a random number generator of its own or reads on in an open file gives other elements after a trial than
before it. What its functions can reach is walked once (closures, globals that they name, objects and their attributes, containers), and of
each thing that can change, its own content is kept: together that is all of it, without a copy of any object.
"""

from __future__ import annotations

import dis
import functools
import io
import operator
import random
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.tune.data.rebuild import nodes
from outpace.tune.purity import values
from outpace.tune.purity.sources import library

MOST = 300_000  # things that are looked at, the nearest first: a list of file names is one look per name
ARRAY_BYTES = 64 * 2**20  # of arrays whose content is kept; what is larger is taken for data that nobody writes to
_QUIET = (
    int,
    float,
    complex,
    str,
    bytes,
    bool,
    type(None),
    range,
    slice,
    type(Ellipsis),
    types.ModuleType,
    types.BuiltinFunctionType,
)
_MOVING = ("socket.", "ssl.", "queue.", "_queue.", "multiprocessing.", "asyncio.", "sqlite3.")
Restore = Callable[[], object]


@dataclass(frozen=True, eq=False)
class PythonState:
    """What was kept, as one function per thing that puts it back, with its name, and what cannot be put back (`stuck`: in words)."""

    restores: tuple[tuple[str, Restore], ...]
    stuck: tuple[str, ...]

    @classmethod
    def of(cls, functions: Iterable[Any]) -> PythonState:
        """The state that these functions reach now. Nothing is called and nothing is read from iterators."""
        walk = _Walk()
        for function in functions:
            walk.see(function, "the function")
        walk.run()
        return cls(tuple(walk.restores), tuple(dict.fromkeys(walk.stuck)))

    def restore(self) -> tuple[str, ...]:
        """Put everything back; returns the names of what could not be (a file that was closed meanwhile)."""
        return tuple(name for name, restore in self.restores if not _done(restore))


class _Walk:
    """One walk, breadth first, each thing once."""

    def __init__(self) -> None:
        self.restores: list[tuple[str, Restore]] = []
        self.stuck: list[str] = []
        self._seen: dict[int, Any] = {}  # values too, so that no id is used again
        self._todo: deque[tuple[Any, str]] = deque()
        self._room = ARRAY_BYTES

    def run(self) -> None:
        while self._todo:
            value, name = self._todo.popleft()
            self._visit(value, name)

    def see(self, value: Any, name: str) -> None:
        """Look at a value later, unless nothing can be in it."""
        if isinstance(value, _QUIET) or id(value) in self._seen or len(self._seen) >= MOST:
            return
        self._seen[id(value)] = value
        self._todo.append((value, name))

    def _keep(self, name: str, restore: Restore) -> None:
        self.restores.append((name, restore))

    def _visit(self, value: Any, name: str) -> None:
        for kind, handle in _HANDLERS:
            if isinstance(value, kind):
                handle(self, value, name)
                return
        if type(value).__name__ == "_GeneratorState" and hasattr(value, "_generator"):  # TensorFlow's own, around the user's
            self.see(value._generator, "the generator")
        elif _is_generator_of_numbers(value):
            self._variable(value._state_var if hasattr(value, "_state_var") else value.state, name)
        elif hasattr(value, "assign") and hasattr(value, "numpy") and hasattr(value, "trainable"):
            self._variable(value, name)
        elif f"{type(value).__module__}.".startswith(_MOVING) and not callable(value) and _hands_over(value):
            self.stuck.append(f"'{name}', a {type(value).__name__}, out of which what is read is gone")
        elif values.users_object(value) and not _of_framework(type(value)):
            self._object(value, name)
        elif _shuffles(value):
            self.stuck.append(f"'{name}', a data set with a shuffle, whose order moves on with every pass")
        elif hasattr(type(value), "__next__"):
            self.stuck.append(f"'{name}', an iterator ({type(value).__name__}), which moves on with every element")

    def _variable(self, variable: Any, name: str) -> None:
        kept = np.array(variable)
        self._keep(name, lambda: variable.assign(kept))

    def _function(self, value: types.FunctionType, name: str) -> None:
        for free, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            self._cell(cell, free)
        for default in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            self.see(default, name)
        self.see(getattr(value, "__wrapped__", None), name)
        if library(values.module_of(value)):  # its own names are its own business
            return
        for used in _globals_of(value.__code__):
            if used in value.__globals__:
                self._name(value.__globals__, used)

    def _cell(self, cell: types.CellType, name: str) -> None:
        try:
            content = cell.cell_contents
        except ValueError:  # nothing is in it yet
            return
        self._keep(name, lambda: setattr(cell, "cell_contents", content))
        self.see(content, name)

    def _name(self, names: dict[str, Any], name: str) -> None:
        content = names[name]
        self._keep(name, lambda: names.__setitem__(name, content))
        self.see(content, name)

    def _method(self, value: types.MethodType, name: str) -> None:
        self.see(value.__func__, name)
        self.see(value.__self__, name)

    def _partial(self, value: functools.partial[Any], name: str) -> None:
        for part in (value.func, *value.args, *value.keywords.values()):
            self.see(part, name)

    def _cached(self, value: Any, name: str) -> None:
        self.see(value.__wrapped__, name)

    def _class(self, value: type, name: str) -> None:
        """A user's class: what it counts in attributes of its own, and what its methods reach."""
        if library(value.__module__) or _of_framework(value):
            return
        for attribute, content in vars(value).items():
            inner = content.fget if isinstance(content, property) else getattr(content, "__func__", content)
            if not attribute.startswith("__") and not callable(inner):
                self._attribute(value, attribute, content)
            self.see(inner, f"{value.__name__}.{attribute}")

    def _object(self, value: Any, name: str) -> None:
        for kind in type(value).__mro__:
            self.see(kind, kind.__name__)
        slots = [slot for kind in type(value).__mro__ for slot in _tuple(vars(kind).get("__slots__", ()))]
        for slot in slots:
            if slot != "__dict__" and hasattr(value, slot):
                self._attribute(value, slot, getattr(value, slot))
                self.see(getattr(value, slot), f"{name}.{slot}")
        if hasattr(value, "__dict__"):
            self._seen[id(value.__dict__)] = value.__dict__
            self._mapping(value.__dict__, name, ".{}")

    def _attribute(self, owner: Any, name: str, content: Any) -> None:
        self._keep(name, lambda: _set(owner, name, content))

    def _mapping(self, value: dict[Any, Any], name: str, suffix: str = "[{!r}]") -> None:
        kept = dict(value)
        self._keep(name, lambda: _refill(value, kept))
        for key, content in kept.items():
            self.see(content, name + suffix.format(key))

    def _sequence(self, value: Any, name: str) -> None:
        """A list, a deque or an array of bytes."""
        kept = value[:] if not isinstance(value, deque) else list(value)
        self._keep(name, lambda: _replace(value, kept))
        self._elements(kept, name)

    def _set(self, value: set[Any], name: str) -> None:
        kept = set(value)
        self._keep(name, lambda: _refill(value, kept))

    def _elements(self, value: Iterable[Any], name: str) -> None:
        for element in value:
            self.see(element, f"an element of {name}")

    def _array(self, value: Any, name: str) -> None:
        if not value.flags.writeable or isinstance(value, np.memmap) or value.nbytes > self._room:
            return
        self._room -= value.nbytes
        kept = value.copy()
        self._keep(name, lambda: np.copyto(value, kept))

    def _numpy_generator(self, value: Any, name: str) -> None:
        self._bits(value.bit_generator, name)

    def _bits(self, value: Any, name: str) -> None:
        kept = value.state
        self._keep(name, lambda: setattr(value, "state", kept))

    def _numpy_random(self, value: Any, name: str) -> None:
        kept = value.get_state()
        self._keep(name, lambda: value.set_state(kept))

    def _python_random(self, value: random.Random, name: str) -> None:
        kept = value.getstate()
        self._keep(name, lambda: value.setstate(kept))

    def _file(self, value: Any, name: str) -> None:
        if value.closed or not value.readable():
            return
        try:
            kept = value.tell()
        except (OSError, ValueError):
            self.stuck.append(f"'{name}', an open file that cannot be read again")
            return
        self._keep(name, lambda: value.seek(kept))


_HANDLERS: tuple[tuple[Any, Callable[[_Walk, Any, str], None]], ...] = (
    (types.FunctionType, _Walk._function),
    (types.MethodType, _Walk._method),
    (functools.partial, _Walk._partial),
    (type(functools.lru_cache(len)), _Walk._cached),
    (type, _Walk._class),
    (dict, _Walk._mapping),
    ((list, deque, bytearray), _Walk._sequence),
    (set, _Walk._set),
    ((tuple, frozenset), _Walk._elements),
    (np.ndarray, _Walk._array),
    (np.random.Generator, _Walk._numpy_generator),
    (np.random.BitGenerator, _Walk._bits),
    (np.random.RandomState, _Walk._numpy_random),
    (random.Random, _Walk._python_random),
    (io.IOBase, _Walk._file),
)


def _set(owner: Any, name: str, content: Any) -> None:
    """Set an attribute where it has changed; members of an enumeration, for instance, never do, and cannot be set."""
    now = vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name, None)
    if now is not content:
        (setattr if isinstance(owner, type) else object.__setattr__)(owner, name, content)


def _done(restore: Restore) -> bool:
    try:
        restore()
    except Exception:
        return False
    return True


def _globals_of(code: types.CodeType) -> Iterator[str]:
    """The global names that a function's code names, in functions inside it too."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "STORE_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)


def _of_framework(kind: type) -> bool:
    """Whether a class is made of TensorFlow's or Keras': models and layers hold much, and trials keep their variables anyway."""
    return any(base.__module__.split(".")[0] in ("tensorflow", "keras") for base in kind.__mro__)


def _is_generator_of_numbers(value: Any) -> bool:
    """`tf.random.Generator` and Keras' seed generator."""
    return _of_framework(type(value)) and type(value).__name__ in ("Generator", "SeedGenerator")


def _shuffles(value: Any) -> bool:
    """Whether a value is a data set whose shuffle counts its passes."""
    if not (_of_framework(type(value)) and hasattr(value, "element_spec") and hasattr(value, "_inputs")):
        return False
    return any(type(node).__name__ == "_ShuffleDataset" for node in nodes(value))


def _hands_over(value: Any) -> bool:
    return any(hasattr(value, name) for name in ("get", "recv", "fetchone", "readline"))


def _tuple(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _refill(value: Any, kept: Any) -> None:
    """Give a dictionary or a set its content back, where it has changed."""
    now, before = (list(part.items()) if isinstance(part, dict) else list(part) for part in (value, kept))
    if not _same(now, before):
        value.clear()
        value.update(kept)


def _replace(value: Any, kept: Any) -> None:
    """The same for a sequence."""
    if not _same(list(value), list(kept)):
        value.clear()
        value.extend(kept)


def _same(now: list[Any], before: list[Any]) -> bool:
    """Whether two lists hold the very same objects (pairs of them, for dictionaries)."""
    pairs = zip(now, before, strict=False)
    return len(now) == len(before) and all(
        a is b or (type(a) is tuple and type(b) is tuple and len(a) == len(b) and all(map(operator.is_, a, b)))
        for a, b in pairs
    )

# SPDX-License-Identifier: Apache-2.0
"""Moves every number that a program's state holds by one rounding, up or down by chance, and after
each pass those that it has made anew: what a run does with that is what it does with an edit that
rounds otherwise. TensorFlow's variables that a pass makes are moved as they are made. Whole numbers
and halves stay: they count, name or label something, and nothing rounds them.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import time
import types
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from outpace.tune.same.state import frames_of, modules_of

_MOST = 1 << 24  # numbers of an array: larger ones are data
_DEEPEST = 12
DIGITS = 8  # of two, of a number that is no result of any rounding
SHARE = 0.25  # of the time that has passed: more is not spent on moving numbers after a pass
_ROUNDING = {2: 2.0**-11, 4: 2.0**-24, 8: 2.0**-53}


class Nudge:
    """Of a state that a frame sees. moved: arrays that were moved."""

    def __init__(self, users: Callable[[str], bool], seed: int) -> None:
        self._users, self._chance = users, np.random.Generator(np.random.PCG64(seed))
        self._seen: dict[int, Any] = {}
        self._before: dict[int, Any] = {}  # what was there, or was made, the last time
        self._variables: dict[int, int] = {}  # hashes of what they were given
        self._whole = False
        self._creating: Any = None  # held: its end would be the end of it
        self._began, self._spent = time.perf_counter(), 0.0
        self.moved = 0

    def frame(self, frame: FrameType, more: tuple[Any, ...] = ()) -> None:
        """All that the user's functions on the stack, and the user's modules, hold; whole numbers
        where these are all that there is. From now on also TensorFlow's variables as they are made:
        a model may be built by its first call.
        """
        self._frame(frame, more)
        if not self.moved:
            self._whole, self._seen, self._variables = True, {}, {}
            self._frame(frame, more)
        if "tensorflow" in sys.modules:
            self._creating = sys.modules["tensorflow"].variable_creator_scope(self._created)
            self._creating.__enter__()

    def again(self, frame: FrameType, *more: Any) -> None:
        """What is another than the last time, as far as that takes little of the run's time: what
        nothing changes is data.
        """
        began = time.perf_counter()
        if self._spent > SHARE * (began - self._began):
            return
        self._before = {id(each): each for pair in self._seen.values() for each in pair}
        self._seen = {}
        self._frame(frame, more)
        self._spent += time.perf_counter() - began

    def _frame(self, frame: FrameType, more: tuple[Any, ...]) -> None:
        for each in frames_of(frame, self._users):
            names = each.f_locals
            for name, value in list(names.items()):
                if (new := self.of(value)) is not value:
                    names[name] = new
            if sys.version_info < (3, 13) and each.f_code.co_name != "<module>":
                ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(each), ctypes.c_int(0))
        for module in modules_of(self._users):
            self._mapping(vars(module), 0)
        for value in more:
            self.of(value)

    def of(self, value: Any, depth: int = 0) -> Any:
        """The value moved, in place where it can be; else another one."""
        if depth > _DEEPEST or isinstance(value, (str, bytes, bool, int, float, complex, type(None), types.ModuleType)):
            return value
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        self._seen[id(value)] = value, value  # held, so that its number stays its own
        made = self._made(value, depth)
        self._seen[id(value)] = value, made
        return made

    def _made(self, value: Any, depth: int) -> Any:
        module = type(value).__module__.partition(".")[0]
        if isinstance(value, np.ndarray):
            if id(value) not in self._before and value.dtype.kind == "f" and value.flags.writeable and 1 < value.size <= _MOST:
                value[...] = self._moved(value)
            return value
        if hasattr(value, "assign") and hasattr(value, "dtype") and hasattr(value, "shape"):
            return self._variable(value)
        if module in ("jax", "jaxlib") and hasattr(value, "at"):
            return self._array(value)
        if module == "torch" and hasattr(value, "is_floating_point"):
            return self._tensor(value)
        return self._container(value, depth)

    def _moved(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        share = _ROUNDING.get(array.dtype.itemsize, 2.0**-11)
        signs = self._chance.integers(0, 2, array.shape, np.int8) * 2.0 - 1.0
        moved: np.ndarray[Any, Any] = (array * (1 + 2 * share * signs)).astype(array.dtype)
        if not self._whole:
            moved = np.where(_given(array), array, moved)
        self.moved += bool((moved != array).any())
        return moved

    def _variable(self, value: Any) -> Any:
        try:
            held = np.asarray(value)
            if held.dtype.kind == "f" and held.size > 1 and self._variables.get(id(value)) != hash(held.tobytes()):
                moved = self._moved(held)
                value.assign(moved)
                self._variables[id(value)] = hash(moved.tobytes())
        except Exception:  # one of a graph, or one that nobody may assign
            return value
        return value

    def _created(self, create: Callable[..., Any], **arguments: Any) -> Any:
        """A variable, from what it is given first: that may stand in a graph, where nobody could
        assign it.
        """
        first = arguments.get("initial_value")
        if callable(first):
            arguments["initial_value"] = functools.wraps(first)(lambda *how, **named: self._first(first(*how, **named)))
        elif first is not None:
            arguments["initial_value"] = self._first(first)
        return create(**arguments)

    def _first(self, value: Any) -> Any:
        tf = sys.modules["tensorflow"]
        tensor = tf.is_tensor(value) and value.dtype.is_floating
        if not (tensor or (isinstance(value, np.ndarray) and value.dtype.kind == "f")):
            return value
        if not 1 < (value.shape.num_elements() or 0 if tensor else value.size) <= _MOST:
            return value
        try:
            held = np.asarray(value)
        except NotImplementedError:  # it has no value yet
            signs = self._chance.integers(0, 2, value.shape, np.int8) * 2.0 - 1.0
            moved = value * tf.constant(1 + 2 * _ROUNDING.get(value.dtype.size, 2.0**-11) * signs, value.dtype)
            return tf.where(2 * value == tf.round(2 * value), value, moved)
        return np.where(_given(held), held, self._moved(held))  # also where the state before the loop was of whole numbers

    def _array(self, value: Any) -> Any:
        try:
            held = np.asarray(value)
        except Exception:  # random keys, arrays that were given away
            return value
        if held.dtype.kind != "f" or held.size < 2 or id(value) in self._before:
            return value
        return sys.modules["jax"].device_put(self._moved(held), value.sharding)

    def _tensor(self, value: Any) -> Any:
        if value.is_floating_point() and value.numel() > 1:
            with sys.modules["torch"].no_grad():
                value.copy_(sys.modules["torch"].from_numpy(self._moved(value.detach().cpu().numpy())))
        return value

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            self._mapping(value, depth)
        elif isinstance(value, list):
            self._list(value, depth)
        elif isinstance(value, tuple):
            made = [self.of(each, depth + 1) for each in value]
            if any(new is not old for new, old in zip(made, value, strict=True)):
                return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
        elif isinstance(value, types.FunctionType):
            for cell in value.__closure__ or () if self._users(value.__code__.co_filename) else ():
                self._cell(cell, depth)
        elif _by_leaves(value):
            return sys.modules["jax"].tree_util.tree_map(lambda leaf: self.of(leaf, depth + 1), value)
        elif isinstance(value, types.MethodType):
            self.of(value.__self__, depth + 1)
        else:
            self._object(value, depth)
        return value

    def _list(self, held: list[Any], depth: int) -> None:
        for at, each in enumerate(held):
            if (new := self.of(each, depth + 1)) is not each:
                held[at] = new

    def _cell(self, cell: types.CellType, depth: int) -> None:
        try:
            held = cell.cell_contents
        except ValueError:  # not filled yet
            return
        if (new := self.of(held, depth + 1)) is not held:
            cell.cell_contents = new

    def _mapping(self, held: dict[Any, Any], depth: int) -> None:
        for key, each in list(held.items()):
            if isinstance(key, str) and key.startswith("__"):
                continue
            if (new := self.of(each, depth + 1)) is not each:
                held[key] = new

    def _object(self, value: Any, depth: int) -> None:
        for name in ("variables", "weights", "optimizer"):
            try:
                held = getattr(value, name, None)
            except Exception:  # whatever a property raises
                held = None
            if isinstance(held, (list, tuple)):
                for each in held:
                    self.of(each, depth + 1)
            elif held is not None and not callable(held):
                self.of(held, depth + 1)
        held = getattr(value, "__dict__", None)
        module = sys.modules.get(type(value).__module__)
        if isinstance(held, dict) and not isinstance(value, type) and self._users(getattr(module, "__file__", None) or "<"):
            for name, each in list(held.items()):
                if (new := self.of(each, depth + 1)) is not each:
                    object.__setattr__(value, name, new)


def _given(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which numbers are whole, or of so few digits that somebody has written them."""
    mantissa, _ = np.frexp(array)
    short: np.ndarray[Any, Any] = np.ldexp(mantissa, DIGITS)
    return np.asarray((array == np.rint(array)) | (short == np.rint(short)))


def _by_leaves(value: Any) -> bool:
    """Whether JAX takes an object for a tree of arrays, as the state of a library's optimizer or
    module.
    """
    jax = sys.modules.get("jax")
    if jax is None or isinstance(value, type):
        return False
    try:
        leaves = jax.tree_util.tree_leaves(value)
    except Exception:  # whatever its own methods raise
        return False
    return bool(leaves) and leaves[0] is not value

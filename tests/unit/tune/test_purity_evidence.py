"""Python functions of pipelines, called twice: those that give the same may be kept."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import io
import itertools
import json
import os
import random
import time
import types
from collections.abc import Callable
from pathlib import Path
from random import uniform
from typing import Any

import numpy as np
import pytest

if os.environ.get("OUTPACE_FAST"):
    pytest.skip("it imports a framework", allow_module_level=True)

from outpace.model.errors import RebuildError
from outpace.tune.purity import evidence, traced
from tests.integration.programs import needs_tensorflow

pytestmark = [needs_tensorflow, pytest.mark.slow]

SIZE = (4, 4)
NAMES = {"cat": 0, "dog": 1}
MEAN = np.array([0.5, 0.25], np.float32)
RNG = np.random.default_rng(0)
OLD_RNG = np.random.RandomState(0)
RNGS = {"first": RNG}
NUMBERS = itertools.count()
SEEN: list[int] = []
MEMORY: dict[str, int] = {}
ARGUMENTS = argparse.Namespace(side=4)
SETTINGS = types.SimpleNamespace(side=4)


# The same twice.


def read_bytes(path: Any) -> Any:
    with open(path, "rb") as file:
        content = file.read()
    pixels = np.frombuffer(content, np.uint8).astype(np.float32)
    pixels /= 255.0
    return pixels


class Decoder:
    """Reads a file through objects of its own, and counts what it does."""

    def __init__(self, side: int) -> None:
        self.side, self.calls = side, 0

    def __call__(self, path: Any) -> Any:
        self.calls += 1
        buffer = io.BytesIO(Path(path.decode()).read_bytes())
        buffer.seek(2)
        return np.frombuffer(buffer.read(self.side**2), np.uint8).reshape(self.side, self.side)


def tokens(line: Any) -> Any:
    return [MEMORY.setdefault(word, len(MEMORY)) for word in line.decode().lower().split()]


def label(path: Any) -> Any:
    folder = os.path.basename(os.path.dirname(path.decode()))
    return NAMES.get(folder, len(NAMES))


def scaled(x: Any) -> Any:
    result = np.array(MEAN)
    result += 1
    return np.stack([value - MEAN[i % 2] for i, value in enumerate(x)]) * result.sum()


@functools.cache
def squared(x: int) -> int:
    return x * x


def helped(x: int) -> Any:
    def inner(y: int) -> int:
        return squared(y) + max(SIZE)

    total = sum(inner(i) for i in range(x))
    counts = collections.Counter(str(total))
    counts.update("12")
    return total + json.loads("3") + sorted(counts, key=lambda k: counts[k])[0].count("1")


@dataclasses.dataclass
class Resizer:
    side: int

    def __post_init__(self) -> None:
        self.double = self.side * 2

    @property
    def area(self) -> int:
        return self.side**2

    def __call__(self, x: int) -> int:
        return self.resize(x) + self.area

    def resize(self, x: int) -> int:
        buffer = io.BytesIO()
        buffer.write(b"x" * self.double)
        return x * len(buffer.getvalue())


class Parser:
    def __init__(self, line: str) -> None:
        self.line = line
        self.parts: list[str] = []

    def parse(self) -> list[str]:
        self.parts = self.line.split(",")
        return self.parts


def parsed(line: Any) -> Any:
    return len(Parser(line.decode()).parse())


def adder(amount: int) -> Callable[[int], int]:
    return lambda x: x + amount


def filled(x: list[int], value: int = 3) -> list[int]:
    x = list(x)
    x[0] = value
    del x[1:]
    return [y for y in x if (z := y) > 0 and z]


class Constants:
    SIDE = 4


def configured(x: int) -> Any:
    return x * ARGUMENTS.side * SETTINGS.side * Constants.SIDE


THIS = __file__.encode()
SAME: dict[str, tuple[Callable[..., Any], Any]] = {
    "a file": (read_bytes, THIS),
    "an object that decodes": (Decoder(3), THIS),
    "a tokenizer with a memory": (tokens, b"The cat sees the dog"),
    "a path": (label, b"data/cat/1.png"),
    "arrays": (scaled, [1.0, 2.0, 3.0]),
    "helpers": (helped, 3),
    "a callable object": (Resizer(3), 4),
    "a method": (Resizer(3).resize, 4),
    "a local object": (parsed, b"a,b"),
    "a closure": (adder(3), 4),
    "a partial": (functools.partial(filled, value=5), [1, 2]),
    "a ufunc": (np.square, 3),
    "a builtin": (abs, 3),
    "settings": (configured, 3),
    "a function without source": (eval("lambda x: x"), 3),
}

# Another value each time.


def draws(x: float) -> float:
    return x + random.random()


def draws_inside(x: float) -> float:
    import random as chance

    return x + chance.random()


def counts_calls(x: int) -> int:
    SEEN.append(x)
    return len(SEEN)


def aliases(x: int) -> int:
    alias = SEEN
    for _ in range(2):
        alias += [x]
    return len(alias)


def remembers(x: int, memory: list[int] = []) -> int:  # noqa: B006  # what is tested
    memory.append(x)
    return len(memory)


def changed_in_place(x: float) -> Any:
    MEAN[0] += x
    return MEAN


def runs_out(x: int, left: list[int] = [1]) -> int:  # noqa: B006  # what is tested
    return x + left.pop()


def counter() -> Callable[[int], int]:
    count = 0

    def add(x: int) -> int:
        nonlocal count
        count += 1
        return x + count

    return add


class Reader:
    def __init__(self) -> None:
        self.count, self.rng = 0, np.random.default_rng(1)

    def read(self, x: int) -> int:
        self.count += 1
        return x + self.count

    def draw(self, x: int) -> float:
        return float(x + self.rng.uniform())


class Noisy:
    def noise(self) -> float:
        return random.random()


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*values: Any) -> Any:
        return function(*values) + random.random()

    return inner


OPERATIONS = {"train": draws}
OTHER: dict[str, Callable[..., Any]] = {
    "chance": draws,
    "chance of NumPy": lambda x: x + np.random.rand(),
    "chance by its name": lambda x: x + uniform(0, 1),
    "chance that is imported inside": draws_inside,
    "chance below": lambda x: max(draws(y) for y in [x]),
    "chance by a callback": lambda x: list(map(draws, [x])),
    "chance of a generator": lambda x: x + RNG.random(),
    "chance of a generator in a table": lambda x: x + RNGS["first"].random(),
    "chance of a state": lambda x: float(OLD_RNG.uniform() + x),
    "chance of an object": lambda x: x + Noisy().noise(),
    "chance of a decorator": wrapped(np.asarray),
    "chance of a partial": functools.partial(draws),
    "chance of a function in a table": lambda x: OPERATIONS["train"](x),
    "chance of functions in a list": lambda x: sum(op(x) for op in [*OPERATIONS.values()]),
    "the clock": lambda x: x + time.time(),
    "an iterator": lambda x: x + next(NUMBERS),
    "a list": counts_calls,
    "another name of a list": aliases,
    "a default": remembers,
    "an array that is changed": changed_in_place,
    "what runs out": runs_out,
    "a closure": counter(),
    "a method that counts": Reader().read,
    "a method that draws": Reader().draw,
}


def mapped(function: Callable[..., Any], argument: Any) -> Any:
    import tensorflow as tf

    def called(x: Any) -> Any:
        return np.array(function(x), np.float64)

    elements = tf.data.Dataset.from_tensors(argument).repeat(2)
    return elements.map(lambda x: tf.numpy_function(called, [x], tf.float64))


@pytest.mark.parametrize("name", SAME)
def test_what_gives_the_same_may_be_kept(name: str) -> None:
    data = mapped(*SAME[name])
    evidence.see(data._map_func, data)
    assert evidence.clean(data._map_func) == {call.token for call in traced.facts(data._map_func).calls}
    assert evidence.repeated(data, name) == 2


@pytest.mark.parametrize("name", OTHER)
def test_what_gives_another_value_may_not(name: str) -> None:
    data = mapped(OTHER[name], np.float64(1))
    evidence.see(data._map_func, data)
    assert not evidence.clean(data._map_func)
    with pytest.raises(RebuildError):
        evidence.repeated(data, name)


def test_functions_of_one_map_are_told_apart() -> None:
    import tensorflow as tf

    def both(x: Any) -> Any:
        return tf.py_function(np.square, [x], tf.float64) + tf.numpy_function(draws, [x], tf.float64)

    data = tf.data.Dataset.from_tensors(np.float64(2)).map(both)
    evidence.see(data._map_func, data)
    kept = [call.name for call in traced.facts(data._map_func).calls if call.token in evidence.clean(data._map_func)]
    assert kept == ["square"]

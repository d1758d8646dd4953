"""Functions as pipelines call them by py_function: CLEAN ones, and by the words that must be said of it, IMPURE ones."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
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

from tests.unit.tune import python_settings

SIZE = (4, 4)
NAMES = {"cat": 0, "dog": 1}
MEAN = np.array([0.5, 0.25], np.float32)
RNG = np.random.default_rng(0)
OLD_RNG = np.random.RandomState(0)
RNGS = {"first": RNG}
NUMBERS = itertools.count()
EPOCH = 0
SEEN: list[int] = []
STATE = {"scale": 1.0}


def advance() -> None:
    global EPOCH
    EPOCH += 1
    STATE["scale"] = 0.5


# Clean.


def read_bytes(path: Any) -> Any:
    with open(path, "rb") as file:
        content = file.read()
    pixels = np.frombuffer(content, np.uint8).astype(np.float32)
    pixels /= 255.0
    return pixels


def label(path: Any) -> Any:
    folder = os.path.basename(os.path.dirname(path.decode()))
    return NAMES.get(folder, len(NAMES))


def scaled(x: Any) -> Any:
    out = []
    for i, value in enumerate(x):
        out.append(value - MEAN[i % 2])
    result = np.array(MEAN)
    result += 1
    return np.stack(out) * result.sum()


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


ARGUMENTS = argparse.Namespace(side=4)
SETTINGS = types.SimpleNamespace(side=4)


class Constants:
    SIDE = 4


def configured(x: int) -> Any:
    return x * ARGUMENTS.side * SETTINGS.side * Constants.SIDE * python_settings.SIDE


CLEAN = {
    "configured": configured,
    "read_bytes": read_bytes,
    "label": label,
    "scaled": scaled,
    "helped": helped,
    "callable object": Resizer(3),
    "method": Resizer(3).resize,
    "local object": parsed,
    "closure": adder(3),
    "partial": functools.partial(filled, value=5),
    "ufunc": np.square,
    "builtin": abs,
    "two lambdas": (lambda x: x + 1, lambda y: random.random())[0],
}

# Impure.


def draws(x: float) -> float:
    return x + random.random()


def draws_by_numpy(x: float) -> float:
    return x + np.random.rand()


def draws_by_name(x: float) -> float:
    return x + uniform(0, 1)


def draws_inside(x: float) -> float:
    import random as chance

    return x + chance.random()


def draws_below(x: float) -> float:
    return max(draws(y) for y in [x])


def reads_clock(x: float) -> float:
    return x + time.time()


def reads_date(x: float) -> float:
    return x + datetime.datetime.now().second


def generator_object(x: float) -> float:
    return x + RNG.random()


def generator_in_a_table(x: float) -> float:
    return x + RNGS["first"].random()


def random_state(x: float) -> float:
    return float(OLD_RNG.uniform() + x)


def moves_on(x: int) -> int:
    return x + next(NUMBERS)


def counts_calls(x: int) -> int:
    SEEN.append(x)
    return len(SEEN)


def aliases(x: int) -> int:
    alias = SEEN
    for _ in range(2):
        alias += [x]
    return len(alias)


def changes_array(x: float) -> float:
    view = MEAN.reshape(1, 2)
    view[0, 0] = x
    return float(view.sum())


def hands_on(x: int) -> int:
    def add(items: list[int]) -> None:
        items.append(x)

    add(SEEN)
    return x


def helper_changes(x: int) -> int:
    _append(SEEN, x)
    return x


def _append(items: list[int], x: int) -> None:
    items.append(x)


def reads_epoch(x: int) -> int:
    return x + EPOCH


def reads_state(x: float) -> float:
    return x * STATE["scale"]


def remembers(x: int, memory: list[int] = []) -> int:  # noqa: B006  # what is tested
    memory.append(x)
    return len(memory)


def counter() -> Callable[[int], int]:
    count = 0

    def add(x: int) -> int:
        nonlocal count
        count += 1
        return x + count

    return add


def other_counter() -> Callable[[int], int]:
    count2 = 0

    def bump() -> None:
        nonlocal count2
        count2 += 1

    def read(x: int) -> int:
        return x + count2

    bump()
    return read


def writes(path: Any) -> int:
    with open(path, "w") as file:
        return file.write("x")


def saves(x: Any) -> Any:
    np.save("x.npy", x)
    return x


def touches(path: Any) -> Any:
    made = Path(path)
    made.touch()
    return path


def tells(x: Any) -> Any:
    print(x)  # what is tested
    return x


def environment(x: Any) -> int:
    return len(os.urandom(3))


def odd_object(x: Any) -> Any:
    return LOCK.acquire()


LOCK = __import__("threading").Lock()


class Reader:
    def __init__(self) -> None:
        self.count = 0
        self.rng = np.random.default_rng(1)
        self.scale = 1.0

    def read(self, x: int) -> int:
        self.count += 1
        return x + self.count

    def draw(self, x: int) -> float:
        return float(x + self.rng.uniform())

    def scaled(self, x: float) -> float:
        return x * self.scale

    def on_epoch_end(self) -> None:
        self.scale = self.scale / 2


class Noisy:
    def noise(self) -> float:
        return random.random()


def noisy_object(x: float) -> float:
    made = Noisy()
    return x + made.noise()


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*values: Any) -> Any:
        return function(*values) + random.random()

    return inner


class Settings:
    rate = 1.0


def decay() -> None:
    Settings.rate *= 0.5


def reads_class(x: float) -> float:
    return x * Settings.rate


def reads_module(x: float) -> float:
    return x * python_settings.EPOCH


def counts_on_itself(x: int) -> int:
    counts_on_itself.calls = x  # type: ignore[attr-defined]  # what is tested
    return x


def by_callback(x: Any) -> Any:
    return list(map(draws, x))


IMPURE = {
    "wrapped": (wrapped(np.asarray), "random.random draws"),
    "reads_class": (reads_class, "Settings.rate is assigned by a function"),
    "reads_module": (reads_module, "EPOCH is assigned again by a function"),
    "counts_on_itself": (counts_on_itself, "counts_on_itself.calls is assigned"),
    "by_callback": (by_callback, "random.random draws"),
    "draws": (draws, "random.random draws random numbers"),
    "draws_by_numpy": (draws_by_numpy, "numpy.random draws random numbers"),
    "draws_by_name": (draws_by_name, "uniform draws random numbers"),
    "draws_inside": (draws_inside, "random draws random numbers"),
    "draws_below": (draws_below, "random.random draws random numbers"),
    "reads_clock": (reads_clock, "time.time reads the clock"),
    "reads_date": (reads_date, "datetime.datetime.now may read the clock"),
    "generator_object": (generator_object, "RNG is a random number generator"),
    "generator_in_a_table": (generator_in_a_table, "RNGS holds something that is a random number generator"),
    "random_state": (random_state, "OLD_RNG is a random number generator"),
    "moves_on": (moves_on, "NUMBERS is an iterator"),
    "counts_calls": (counts_calls, "SEEN is changed"),
    "aliases": (aliases, "SEEN is changed"),
    "changes_array": (changes_array, "view[0, 0] is assigned, and may be part of a value that lives on"),
    "hands_on": (hands_on, "SEEN is changed"),
    "helper_changes": (helper_changes, "SEEN is changed"),
    "reads_epoch": (reads_epoch, "EPOCH is assigned again"),
    "reads_state": (reads_state, "STATE is changed"),
    "remembers": (remembers, "memory.append changes"),
    "counter": (counter(), "count is assigned, and lives on"),
    "other_counter": (other_counter(), "count2 is assigned again"),
    "writes": (writes, "opened to be written"),
    "saves": (saves, "numpy.save writes files"),
    "touches": (touches, "made.touch changes files"),
    "tells": (tells, "print prints"),
    "environment": (environment, "os.urandom is more than a function"),
    "odd_object": (odd_object, "LOCK is an object of _thread.lock"),
    "storing method": (Reader().read, "self.count is assigned, and lives on"),
    "drawing method": (Reader().draw, "Reader.rng is a random number generator"),
    "changed attribute": (Reader().scaled, "Reader.scale is assigned by a function"),
    "noisy object": (noisy_object, "random draws random numbers"),
    "lambda": (lambda x: x + random.random(), "random draws random numbers"),
    "generator": (lambda x: (yield x), "is a generator"),
    "partial": (functools.partial(draws), "random draws random numbers"),
    "bound": (functools.partial(_append, SEEN), "items.append changes"),
    "text": (eval("lambda x: x"), "source text"),
}

"""What Python functions reach outside of themselves is put back as it was, and what cannot be is named. No framework is needed."""

from __future__ import annotations

import functools
import io
import itertools
import os
import queue
import random
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outpace.tune.program import python_state
from outpace.tune.program.python_state import PythonState

count = 0
table: dict[str, int] = {"a": 1}


def counting() -> int:
    global count
    count += 1
    table[f"n{count}"] = count
    return count


class Color(Enum):
    RED = 1


@dataclass(frozen=True, slots=True)
class Settings:
    color: Color
    sizes: list[int]


class Loader:
    made = 0
    __slots__ = ("__dict__", "at")

    def __init__(self) -> None:
        self.at, self.epoch, self.seen, self.random = 0, 0, Counter[int](), np.random.default_rng(2)

    def __iter__(self) -> Loader:
        return self

    def __next__(self) -> float:
        Loader.made += 1
        self.at += 1
        self.epoch += 1
        self.seen[self.epoch % 3] += 1
        return self.at + self.epoch + self.seen[0] + self.random.random() + counting()


def nonlocal_counter() -> Callable[[], int]:
    at, lock = 0, threading.Lock()

    def step() -> int:
        nonlocal at
        with lock:
            at += 1
        return at

    return step


def reader(path: Path) -> Callable[[], str]:
    file = io.StringIO(path.read_text(encoding="utf-8"))
    return lambda: file.readline()


def closures(folder: Path) -> dict[str, Callable[[], object]]:
    """Functions whose answer depends on how often they were called."""
    (folder / "numbers").write_text("".join(f"{at}\n" for at in range(1000)), encoding="utf-8")
    numbers, filled, ring, names = list(range(50)), np.zeros(4), deque(range(50)), set(range(50))
    generator, own, old = np.random.default_rng(1), random.Random(1), np.random.RandomState(1)
    loader, settings = Loader(), Settings(Color.RED, list(range(50)))

    def fill() -> float:
        filled[:] += 1
        return float(filled.sum())

    def grow() -> int:
        names.add(len(names))
        return len(names)

    return {
        "global": counting,
        "nonlocal": nonlocal_counter(),
        "list": lambda: numbers.pop(),
        "deque": lambda: ring.popleft(),
        "set": grow,
        "array": fill,
        "numpy generator": lambda: generator.random(),
        "numpy random state": lambda: old.rand(),
        "python random": lambda: own.random(),
        "object that is its own iterator": functools.partial(next, loader),
        "method": loader.__next__,
        "frozen object with slots": lambda: settings.sizes.pop() + settings.color.value,
        "wrapped": functools.lru_cache(maxsize=0)(nonlocal_counter()),
        "file": reader(folder / "numbers"),
        "helper": functools.partial(lambda inner: inner(), nonlocal_counter()),
    }


def test_what_was_changed_meanwhile_is_put_back(tmp_path: Path) -> None:
    for name, function in closures(tmp_path).items():
        state = PythonState.of([function])
        assert state.stuck == (), name
        first = [function() for _ in range(5)]
        assert len(set(map(str, first))) == 5, f"{name} does not depend on its state, so this shows nothing"
        assert state.restore() == ()
        assert [function() for _ in range(5)] == first, name


def test_what_moves_on_by_itself_is_named() -> None:
    for moving, said in (
        (iter([1]), "an iterator (list_iterator)"),
        (itertools.count(), "an iterator (count)"),
        (queue.Queue(), "out of which what is read is gone"),
        (queue.SimpleQueue(), "out of which what is read is gone"),
    ):
        stuck = PythonState.of([lambda moving=moving: moving]).stuck
        assert len(stuck) == 1 and said in stuck[0], stuck


def test_a_pipe_cannot_be_put_back_and_a_log_needs_not() -> None:
    read, write = os.pipe()
    with open(read, encoding="utf-8") as pipe, open(write, "w", encoding="utf-8") as log:
        assert PythonState.of([lambda: log.write("x")]).stuck == ()
        (stuck,) = PythonState.of([lambda: pipe.readline()]).stuck
        assert stuck == "'pipe', an open file that cannot be read again"


def test_a_file_that_was_closed_meanwhile_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x", encoding="utf-8")
    file = (tmp_path / "x").open(encoding="utf-8")
    state = PythonState.of([lambda: file.read()])
    file.close()
    assert state.restore() == ("file",)


def test_nothing_is_called_or_read() -> None:
    class Loud:
        def __iter__(self) -> Any:
            raise AssertionError("it was read")

        def __call__(self) -> Any:
            raise AssertionError("it was called")

        @property
        def loud(self) -> Any:
            raise AssertionError("it was asked")

    source, taken = iter([1, 2, 3]), io.StringIO("abc")
    PythonState.of([Loud(), lambda: (source, taken)])
    assert next(source) == 1 and taken.read() == "abc"


def test_a_large_array_and_a_long_list_are_no_burden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_state, "ARRAY_BYTES", 100)
    monkeypatch.setattr(python_state, "MOST", 50)
    large, small, many = np.zeros(1000), np.zeros(4), [(at,) for at in range(1000)]
    state = PythonState.of([lambda: (large, small, many)])
    large[:], small[:] = 1, 1
    many.clear()
    assert state.restore() == ()
    assert large.all() and not small.any() and len(many) == 1000  # what is too large is taken for data

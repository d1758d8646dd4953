"""The cost of an analysis is linear in all that a profile has many of: counted, never timed.

What is counted: calls that Python makes (its own functions', and those of C), and elements of the arrays and lists that Outpace's functions
are given. What every report costs is in all three sizes: the second doubling may cost twice what the first one did, and not four times.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import outpace
from outpace._cores import granted_cpus
from outpace.trace import by_row
from tests.growing import GROWN

SOURCE = str(Path(outpace.__file__).parent)
HAND_ON = tuple(str(Path(SOURCE, *inner)) for inner in (("_native", "__init__.py"), ("trace", "by_row.py")))
"""Files whose functions give each other what they were given: their callers' arguments are counted, once."""
GENERATOR = inspect.CO_GENERATOR  # each time that one goes on looks like a call
MOST = 2.3  # a term of n log n, and what begins at some size only, have their place here; a square makes 4


def counted(work: Callable[[], object]) -> np.ndarray:
    """(calls, elements given to Outpace's functions) of the work."""
    calls = elements = 0

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls, elements
        if event in ("call", "c_call"):
            calls += 1
        code, caller = frame.f_code, frame.f_back
        if caller is not None and caller.f_code.co_filename in HAND_ON:
            if (event, code.co_name) == ("call", "_unpacked") and frame.f_locals["rows"] is None:
                elements += frame.f_locals["count"]  # of a slice
            return
        if event == "call" and code.co_filename.startswith(SOURCE) and not code.co_flags & GENERATOR and code.co_name[0] != "<":
            given = [
                v for k, v in frame.f_locals.items() if (code.co_name, k) != ("common", "second")
            ]  # bisected; the rest are arguments
            elements += sum(
                v.size for v in given if isinstance(v, np.ndarray) and v.dtype != np.uint8
            )  # a file's bytes are looked into
            elements += sum(len(v) for v in given if isinstance(v, list))

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return np.array([calls, elements])


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns as those of many events are: a slice of one is work."""
    monkeypatch.setattr(by_row, "FEW", 0)


@pytest.fixture
def one_core(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All pages on the thread that is counted."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "sched_getaffinity", lambda _: {0})
        granted_cpus.cache_clear()
        yield
    granted_cpus.cache_clear()


@pytest.mark.usefixtures("one_core", "packed")
@pytest.mark.parametrize("name", GROWN)
def test_cost_is_linear(name: str, tmp_path: Path) -> None:
    make, least = GROWN[name]
    found = []
    for size in (least, 2 * least, 4 * least):
        folder = tmp_path / str(size)
        folder.mkdir()
        work = make(folder, size)
        work()  # imports, and patterns that are compiled once
        found.append(counted(work))
    first, second = found[1] - found[0], found[2] - found[1]
    assert (second <= MOST * np.maximum(first, 100)).all(), f"(calls, elements) more: {first.tolist()}, then {second.tolist()}"


def test_a_square_is_seen() -> None:
    def square(size: int) -> None:
        for _ in range(size):
            outpace.model.median(np.zeros(size))

    one, two, four = (counted(partial(square, size)) for size in (50, 100, 200))
    assert (four - two)[1] > 3.5 * (two - one)[1]
    assert (four - two)[0] < MOST * (two - one)[0]

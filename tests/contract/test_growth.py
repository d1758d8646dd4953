"""The cost of an analysis is linear in all that a profile has many of: counted, never timed.

What is counted: calls that Python makes (its own functions', and those of C), and elements of the
arrays and lists that Outpace's functions are given, and of new arrays that they make. What every
report costs is in all three sizes: the second doubling may cost twice what the first one did, and
not four times.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import outpace
from outpace._cpus import available_cpus
from outpace.trace import columns
from outpace.ui.http import Request
from outpace.ui.run_summaries import RunSummary, SummaryCache
from outpace.ui.runs import scan_folders
from outpace.ui.site import Site
from tests import growing
from tests.growing import GROWN

pytestmark = pytest.mark.slow

SOURCE = str(Path(outpace.__file__).parent)
HAND_ON = tuple(str(Path(SOURCE, *inner)) for inner in (("_native", "__init__.py"), ("trace", "columns.py")))
"""Files whose functions give each other what they were given: their callers' arguments are counted,
once.
"""
GENERATOR = inspect.CO_GENERATOR  # each time that one goes on looks like a call
MOST = 2.3  # a term of n log n, and what begins at some size only, have their place here; a square makes 4


def counted(work: Callable[[], object]) -> np.ndarray:
    """(calls, elements that Outpace's functions are given or make) of the work."""
    calls = elements = 0
    known: dict[int, weakref.ref[np.ndarray]] = {}

    def is_new(array: np.ndarray) -> bool:
        """Whether nobody has been given the array yet: a view, and what is kept, cost nothing."""
        if array.base is not None or ((there := known.get(id(array))) is not None and there() is array):
            return False
        known[id(array)] = weakref.ref(array)
        return True

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls, elements
        if event in ("call", "c_call"):
            calls += 1
        code, caller = frame.f_code, frame.f_back
        if caller is not None and caller.f_code.co_filename in HAND_ON:
            if (event, code.co_name) == ("call", "_unpack") and frame.f_locals["rows"] is None:
                elements += frame.f_locals["count"]  # of a slice
            return
        if event == "return" and code.co_filename.startswith(SOURCE) and isinstance(argument, np.ndarray) and is_new(argument):
            elements += argument.size
        if event == "call" and code.co_filename.startswith(SOURCE) and not code.co_flags & GENERATOR and code.co_name[0] != "<":
            given = [
                v for k, v in frame.f_locals.items() if (code.co_name, k) != ("intersect_indices", "second")
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
    monkeypatch.setattr(columns, "MIN_PACKED_ROWS", 0)


@pytest.fixture
def one_core(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All pages on the thread that is counted."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "sched_getaffinity", lambda _: {0})
        available_cpus.cache_clear()
        yield
    available_cpus.cache_clear()


@pytest.mark.usefixtures("one_core", "packed")
@pytest.mark.parametrize("name", GROWN)
def test_cost_is_linear(name: str, tmp_path: Path) -> None:
    make, least, _ = GROWN[name]
    found = []
    for size in (least, 2 * least, 4 * least):
        folder = tmp_path / str(size)
        folder.mkdir()
        work = make(folder, size)
        work()  # imports, and patterns that are compiled once
        found.append(counted(work))
    first, second = found[1] - found[0], found[2] - found[1]
    assert (second <= MOST * np.maximum(first, 100)).all(), f"(calls, elements) more: {first.tolist()}, then {second.tolist()}"


def test_a_list_that_is_asked_again_costs_what_has_changed(tmp_path: Path) -> None:
    """The workbench asks every second. Of each run whose folder has not changed, its files are
    looked at every thirtieth time.
    """
    growing.runs(tmp_path, 300)
    for run in tmp_path.glob("*/plugins/profile/*"):
        for each in (*run.iterdir(), run):
            os.utime(each, (1e9, 1e9))
    cache = SummaryCache(tmp_path / "verdicts")
    site = Site([str(tmp_path)], cache)
    site.close()
    for one in scan_folders([str(tmp_path)]):
        cache.put(one.info, RunSummary("Input-bound", 1e9, "Cache it", "half", "train.py"))

    def ask() -> bytes:
        site._last_scan = (-10.0, site._last_scan[1])  # as if it were later
        body = site.answer(Request("runs")).body
        assert isinstance(body, bytes)
        return body

    first, again = counted(ask), [counted(ask) for _ in range(5)]
    assert np.median(again, axis=0)[0] * 8 < first[0], (first.tolist(), [each.tolist() for each in again])
    assert len(json.loads(ask())) == 300


def test_a_square_is_seen() -> None:
    def square(size: int) -> None:
        for _ in range(size):
            outpace.model.median(np.zeros(size))

    one, two, four = (counted(partial(square, size)) for size in (50, 100, 200))
    assert (four - two)[1] > 3.5 * (two - one)[1]
    assert (four - two)[0] < MOST * (two - one)[0]

"""Which lines of a loop's script a step's time goes to."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outpace.store.record import PythonSamples
from outpace.tune.climb.lines import lines_of, share_of

TEXT = """def loaded(batch):
    return decode(batch)

for epoch in range(3):
    for batch in data:
        step(loaded(batch))
        print(batch)
    evaluate(data)
"""
MODULE, LOADED, LIBRARY, OWN = range(4)  # frames
STEP, LOAD = ((MODULE, 6), (LIBRARY, 90)), ((MODULE, 6), (LOADED, 2), (LIBRARY, 10))
EVALUATE, AGAIN, OURS = ((MODULE, 8), (LIBRARY, 50)), ((MODULE, 8), (LOADED, 2)), ((MODULE, 6), (OWN, 1))
PRINT, HEAD = ((MODULE, 7),), ((MODULE, 5),)


@pytest.fixture
def script(tmp_path: Path) -> str:
    linecache.clearcache()
    (tmp_path / "train.py").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "train.py")


def samples(script: str, *met: tuple[tuple[tuple[int, int], ...], int]) -> PythonSamples:
    """Stacks, and how many ns each stands for."""
    yours = (script, "<module>", 1, ""), (script, "loaded", 1, "")
    frames = (*yours, ("keras.py", "fit", 1, "keras"), ("", "watch", 1, "outpace"))
    stacks = tuple({stack: None for stack, _ in met})
    seen = tuple((at, weight, stacks.index(stack)) for at, (stack, weight) in enumerate(met))
    return PythonSamples(0, "MainThread", "signal", frames, stacks, seen)


def loop(script: str, *, taken: bool = True) -> Any:
    """The loop over batches, taken apart or not."""
    node = next(each for each in ast.walk(ast.parse(TEXT)) if isinstance(each, ast.For) and each.lineno == 5)
    return SimpleNamespace(taken=SimpleNamespace(body=SimpleNamespace(file=script, loop=node)) if taken else None)


def rows(table: Any) -> list[tuple[str, str, str, float]]:
    return [(row["line"], row["function"], row["text"], round(row["share"], 9)) for row in table.records()]


def test_lines_of_a_step_by_their_share(script: str) -> None:
    """What a library does is the time of the innermost line of the user's above it."""
    table = lines_of(samples(script, (STEP, 30), (LOAD, 50), (STEP, 10), (PRINT, 5), (HEAD, 5)), loop(script))
    assert rows(table) == [
        ("train.py:2", "loaded", "return decode(batch)", 0.5),
        ("train.py:6", "<module>", "step(loaded(batch))", 0.4),
        ("train.py:7", "<module>", "print(batch)", 0.05),
        ("train.py:5", "<module>", "for batch in data:", 0.05),
    ]
    assert table is not None and all(row["low"] < row["share"] < row["high"] for row in table.records())


def test_what_lies_outside_of_the_innermost_loop_is_no_part_of_a_step(script: str) -> None:
    """An evaluation between epochs may run the same lines as the step."""
    table = lines_of(samples(script, (STEP, 30), (EVALUATE, 900), (LOAD, 10), (AGAIN, 900)), loop(script))
    lines = [(line, function, share) for line, function, _, share in rows(table)]
    assert lines == [("train.py:6", "<module>", 0.75), ("train.py:2", "loaded", 0.25)]
    assert lines_of(samples(script, (EVALUATE, 900)), loop(script)) is None


def test_of_a_loop_that_is_not_taken_apart_all_counts(script: str) -> None:
    table = lines_of(samples(script, (STEP, 25), (EVALUATE, 75)), loop(script, taken=False))
    assert [(line, share) for line, _, _, share in rows(table)] == [("train.py:8", 0.75), ("train.py:6", 0.25)]


def test_what_watches_takes_no_time_of_a_step(script: str) -> None:
    table = lines_of(samples(script, (STEP, 30), (OURS, 900)), loop(script))
    assert rows(table) == [("train.py:6", "<module>", "step(loaded(batch))", 1.0)]
    assert lines_of(samples(script, (OURS, 900)), loop(script)) is None


def test_lines_that_take_next_to_nothing_are_left_out(script: str) -> None:
    table = lines_of(samples(script, (STEP, 995), (PRINT, 5)), loop(script))
    assert [line for line, *_ in rows(table)] == ["train.py:6"]


@pytest.mark.parametrize(
    ("place", "share"),
    [
        ("train.py:1 loaded", 0.5),  # a function, by where it begins
        ("other/train.py:6 step", 0.9),  # a line, with what is below it
        ("train.py:7", 0.1),
        ("train.py:99", 0.0),
    ],
)
def test_what_some_places_take_of_a_step(script: str, place: str, share: float) -> None:
    found = samples(script, (STEP, 40), (LOAD, 50), (PRINT, 10), (EVALUATE, 900))
    assert share_of(found, loop(script), [place]) == pytest.approx(share)


def test_several_places_are_counted_once(script: str) -> None:
    found = samples(script, (STEP, 40), (LOAD, 50), (PRINT, 10))
    assert share_of(found, loop(script), ["train.py:6", "train.py:1 loaded"]) == pytest.approx(0.9)
    assert share_of(samples(script, (EVALUATE, 5)), loop(script), ["train.py:6"]) == 0.0

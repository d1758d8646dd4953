"""How many steps an epoch of a loop has, and how many of them one call makes."""

from __future__ import annotations

import ast
import itertools
from typing import Any

import pytest

from outpace.tune.loop.taken import length_of, size_for


class Endless:
    """A loader that does not know how much it has."""

    def __len__(self) -> int:
        raise TypeError("it has no length")


NAMES: dict[str, Any] = {"files": ["a", "b", "c"], "n": 10, "made": (each for each in "abc"), "begun": iter("abcd")}
NAMES |= {"endless": Endless(), "always": itertools.repeat(1), "nothing": None}


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("files", 3),
        ("begun", 4),
        ("range(n)", 10),
        ("range(0, n, 3)", 4),
        ("range(n // 2 + 1)", 6),
        ("range(n, 0)", 0),
        ("enumerate(files)", 3),
        ("enumerate(range(n), 1)", 10),
        ("reversed(sorted(files))", 3),
        ("list(enumerate(tuple(files)))", 3),
        ("zip(range(n), files)", 3),
        ("enumerate(zip(files, range(2)))", 2),
    ],
)
def test_what_a_loop_goes_over_is_counted_without_going_over_it(text: str, length: int) -> None:
    assert length_of(ast.parse(text, mode="eval").body, NAMES) == length


@pytest.mark.parametrize(
    "text",
    [
        "made",
        "endless",
        "always",
        "nothing",
        "unknown",
        "range(unknown)",
        "range(len(files))",  # nothing of the program is called
        "range('n')",
        "zip(files, made)",
        "zip()",
        "map(str, files)",
        "batches()",
        "self.files",
        "[1, 2]",
    ],
)
def test_what_is_not_known_is_no_length(text: str) -> None:
    assert length_of(ast.parse(text, mode="eval").body, NAMES) == 0


def test_a_generator_is_as_it_was() -> None:
    made = (each for each in "abc")
    length_of(ast.parse("enumerate(made)", mode="eval").body, {"made": made})
    assert list(made) == ["a", "b", "c"]


@pytest.mark.parametrize(("length", "size"), [(0, 16), (1, 1), (7, 7), (30, 30), (32, 32), (64, 32), (63, 21), (1000, 27)])
def test_a_call_divides_an_epoch(length: int, size: int) -> None:
    assert size_for(length) == size


@pytest.mark.parametrize(("length", "period", "size"), [(0, 100, 25), (125, 100, 25), (1000, 50, 25), (0, 7, 7)])
def test_a_call_divides_what_lies_between_two_looks(length: int, period: int, size: int) -> None:
    assert size_for(length, period) == size

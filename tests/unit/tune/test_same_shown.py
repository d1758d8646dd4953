"""Which passes of a loop are made where it is cut."""

from __future__ import annotations

import ast
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from outpace.tune.same.passes import Passes
from outpace.tune.same.shown import FEW, MOST_SPANS, Items, Shown, number_of, numbers_of, said


def spans(
    first: int = 64, every: int = 1, numbers: tuple[int, ...] = (), entry: int = 1, inner: bool = True, **items: Items
) -> str:
    held = {key: [each] for key, each in items.items()}
    return said(Shown(first, every, numbers, held).spans("a", entry, inner), None)


KNOWN, OPEN = Items(1003, True), Items(600, False)
SPANS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing is known": ({}, "1-64"),
    "nothing is known of a loop around": ({"inner": False}, "1-2"),
    "numbers that the text names, and the last": ({"numbers": (3, 500, 501, 5000), "a": KNOWN}, "1-64, 500-503, 1002-1003"),
    "a loop whose end is not known": ({"numbers": (500, 5000), "a": OPEN}, "1-64, 500-502"),
    "near numbers are reached without a gap": ({"numbers": (100,), "a": Items(1000, True)}, "1-102, 999-1000"),
    "a short loop as a whole": ({"a": Items(120, True)}, "1-120"),
    "a short loop around as a whole": ({"inner": False, "a": Items(6, True)}, "1-6"),
    "whole groups, and the rest of the last": ({"every": 16, "numbers": (500,), "a": KNOWN}, "1-64, 497-512, 977-1003"),
    "less of later epochs": ({"numbers": (500,), "entry": 3, "a": Items(1000, True)}, f"1-{FEW}, 999-1000"),
}


@pytest.mark.parametrize("name", SPANS)
def test_which_passes_are_made(name: str) -> None:
    known, expected = SPANS[name]
    assert spans(**known) == expected


@pytest.mark.parametrize(("count", "expected"), [(1024, "1-64, 993-1009"), (1003, "1-64, 977-1003"), (64, "1-49")])
def test_one_run_of_a_loop_ends_one_pass_behind_a_group(count: int, expected: str) -> None:
    items = {"0.1": [Items(count, True)]}
    shown, ungrouped = Shown(64, 16, items=items), Shown(64, 1, items=items)
    assert said(shown.run("0.1", 2, True), None) == expected
    assert shown.run("0.1", 1, True) == shown.spans("0.1", 1, True)
    assert ungrouped.run("0.1", 2, True) == ungrouped.spans("0.1", 2, True)


def test_a_loop_that_is_entered_once_ends_so_where_it_is_cut() -> None:
    cut, whole = (Shown(64, 16, items={"0": [Items(count, True)]}) for count in (1024, 128))
    assert said(cut.run("0", 1, True), None) == "1-64, 993-1009"
    assert said(whole.run("0", 1, True), None) == "1-128"


def outer(count: int, first: int = 64, seconds: float = 0.0, every: int = 1) -> str:
    items = {"0": [Items(count, True)], "0.1": [Items(500, True, seconds)]}
    return said(Shown(first, every, items=items).spans("0", 1, False), None)


def test_a_loop_around_has_all_its_passes_made_where_that_is_affordable() -> None:
    assert outer(64) == "1-64" and outer(65) == "1-2, 64-65"
    assert outer(40, seconds=0.9) == "1-40" and outer(40, seconds=1.1) == "1-2, 39-40"
    assert outer(40, first=16) == "1-2, 39-40" and outer(10, every=16) == "1-2, 9-10"


def test_the_more_passes_a_loop_around_has_the_fewer_are_made_in_each() -> None:
    shown = Shown(64, items={"0": [Items(50, True)], "0.1": [Items(500, True)]})
    assert said(shown.spans("0.1", 3, True), None) == "1-2, 499-500"


def test_there_is_a_limit_to_numbers() -> None:
    assert spans(numbers=tuple(range(1000, 9000, 100)), a=Items(10_000, False)).count(",") == MOST_SPANS


def test_passes_keep_their_numbers() -> None:
    found = Shown(2, items={"a": [Items(9, True)]}).spans("a", 1, True)
    assert [number_of(found, made) for made in range(1, 5)] == [1, 2, 8, 9]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("if step == 500: pass", [500]),
        ("0.1 ** (step // (2 * hundred))", [200]),
        ("step % args.every == args.every - 1", [9, 10]),
        ("epoch in (30, sixty)", [30]),
        ("step > limit() or step % step_of['x']", [7]),
        ("rate < 0.5 and flag == True and step >= 1e3", [1000]),
        ("step %= 12", [12]),
        ("plan = {6 * hundred: 'fine', 'a': 3}", [600]),
        ("step in marks or marks_of[step] or args.plan.get(step)", [40, 50, 60, 70]),
    ],
)
def test_numbers_of_a_text(text: str, numbers: list[int]) -> None:
    args = SimpleNamespace(every=10, plan={60: "b", 70: "c"})
    marks = {"marks": [40], "marks_of": {50: "a"}, "step_of": {"x": 7}}
    names = {"hundred": 100, "args": args, **marks, "step": 0, "limit": lambda: 3}
    assert numbers_of(ast.parse(text), names) == numbers


def passes(shown: Shown, surveyed: bool = False) -> Passes:
    found = Passes(shown, False, lambda frame: None, lambda *told: None, "0", surveyed)
    found._enter("0")
    return found


def test_items_of_other_passes_are_drawn_and_dropped() -> None:
    drawn: list[int] = []
    items = (drawn.append(at) or at for at in range(100))  # type: ignore[func-returns-value]
    shown = passes(Shown(4, numbers=(50,), items={"0": [Items(100, True)]}))
    assert list(shown._cut("0", items)) == [0, 1, 2, 3, 49, 50, 51, 98, 99]
    assert drawn == [*range(100)]


def test_an_edit_that_has_more_items_shows_that() -> None:
    shown = passes(Shown(4, items={"0": [Items(100, True)]}))
    assert list(shown._cut("0", range(101)))[-3:] == [98, 99, 100]


@pytest.mark.parametrize(("items", "found"), [(range(100), Items(100, True)), (range(3), Items(3, True))])
def test_items_are_counted(items: range, found: Items) -> None:
    counting = passes(Shown(4), surveyed=True)
    assert list(counting._cut("0", items)) == [*items[:4]]
    assert [replace(each, seconds=0.0) for each in counting.items["0"]] == [found]

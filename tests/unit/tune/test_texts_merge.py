"""Edits of texts put together, and taken apart again."""

from __future__ import annotations

from pathlib import Path

import pytest

from outpace.tune.texts.merge import merged

BASE = "import os\n\na = 1\nb = 2\nc = 3\n"


def together(base: str, one: str, two: str) -> str | None:
    """Of one file; the same whichever edit comes first."""
    found, other = (merged({"f": base}, {"f": first}, {"f": second}) for first, second in ((one, two), (two, one)))
    assert found == other
    return found["f"] if found is not None else None


A, B, C = ("a = 1", "a = 10"), ("b = 2", "b = 20"), ("c = 3", "c = 30")
TOGETHER = {
    "both edits": (A, ("c = 3\n", ""), "a = 10\nb = 2\n"),
    "lines side by side": (A, B, "a = 10\nb = 20\nc = 3\n"),
    "what is put before a line stands before what becomes of it": (
        ("b = 2", "new = 0\nb = 2"),
        B,
        "a = 1\nnew = 0\nb = 20\nc = 3\n",
    ),
    "the same edit twice": (B, B, "a = 1\nb = 20\nc = 3\n"),
    "an end without a line end": (A, ("c = 3\n", "c = 3\nd = 4"), "a = 10\nb = 2\nc = 3\nd = 4"),
}


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("name", TOGETHER)
def test_both_edits_are_in_the_text_with_its_line_ends(name: str, ends: str) -> None:
    one, two, rest = TOGETHER[name]
    texts = (BASE, BASE.replace(*one), BASE.replace(*two), f"import os\n\n{rest}")
    base, first, second, both = (text.replace("\n", ends) for text in texts)
    assert together(base, first, second) == both


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (("b = 2", "b = 20"), ("b = 2", "b = 21")),
        (("b = 2\n", ""), ("b = 2", "b = 20")),
        (("b = 2\n", "b = 2\nd = 4\n"), ("b = 2\n", "b = 2\ne = 5\n")),  # which of both comes first nothing says
        (("a = 1\nb = 2\nc = 3\n", "pass\n"), ("b = 2\n", "b = 2\ne = 5\n")),
    ],
)
def test_edits_of_the_same_lines_do_not_go_together(one: tuple[str, str], two: tuple[str, str]) -> None:
    assert together(BASE, BASE.replace(*one), BASE.replace(*two)) is None


def test_what_both_insert_stands_there_once() -> None:
    """Two edits that need one import."""
    one, two = (f"import functools\n{BASE.replace(*edit)}" for edit in (A, C))
    assert together(BASE, one, two) == "import functools\nimport os\n\na = 10\nb = 2\nc = 30\n"


def test_one_edit_is_taken_out_of_two() -> None:
    first, second = ("a = 1", "a = 10\nmore = 0"), ("c = 3", "c = 30")
    before, after, both = BASE, BASE.replace(*first), BASE.replace(*first).replace(*second)
    assert merged({"f": after}, {"f": before}, {"f": both}) == {"f": BASE.replace(*second)}
    assert merged({"f": both}, {"f": after}, {"f": both}) == {"f": after}, "and the last one, of all"


def test_an_edit_that_a_later_one_changes_stays_in() -> None:
    before, after, both = BASE, BASE.replace("b = 2", "b = 20"), BASE.replace("b = 2", "b = 21")
    assert merged({"f": after}, {"f": before}, {"f": both}) is None


def test_a_file_that_texts_do_not_hold_is_as_it_is(tmp_path: Path) -> None:
    script, data = (str(tmp_path / name) for name in ("train.py", "data.py"))
    Path(script).write_bytes(BASE.replace("\n", "\r\n").encode())
    Path(data).write_text("# coding: latin-1\nx = 'ä'\n", encoding="latin-1")
    edited, of_data = BASE.replace("\n", "\r\n").replace("a = 1", "a = 10"), "# coding: latin-1\nx = 'ä'\ny = 2\n"
    assert merged({}, {script: edited}, {data: of_data}) == {script: edited, data: of_data}
    on_top = edited.replace("c = 3", "c = 30")
    assert merged({script: edited}, {script: edited, data: of_data}, {script: on_top}) == {script: on_top, data: of_data}
    assert merged({}, {}, {}) == {}

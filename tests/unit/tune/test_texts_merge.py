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


def test_both_edits_are_in_the_text() -> None:
    assert together(BASE, BASE.replace("a = 1", "a = 10"), BASE.replace("c = 3\n", "")) == "import os\n\na = 10\nb = 2\n"


def test_edits_of_lines_side_by_side_are_two() -> None:
    found = together(BASE, BASE.replace("a = 1", "a = 10"), BASE.replace("b = 2", "b = 20"))
    assert found == "import os\n\na = 10\nb = 20\nc = 3\n"


def test_what_is_put_before_a_line_stands_before_what_becomes_of_it() -> None:
    found = together(BASE, BASE.replace("b = 2", "new = 0\nb = 2"), BASE.replace("b = 2", "b = 20"))
    assert found == "import os\n\na = 1\nnew = 0\nb = 20\nc = 3\n"


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
    one, two = (f"import functools\n{BASE.replace(*edit)}" for edit in (("a = 1", "a = 10"), ("c = 3", "c = 30")))
    assert together(BASE, one, two) == "import functools\nimport os\n\na = 10\nb = 2\nc = 30\n"


def test_the_same_edit_twice_is_one() -> None:
    edited = BASE.replace("b = 2", "b = 20")
    assert together(BASE, edited, edited) == edited


def test_one_edit_is_taken_out_of_two() -> None:
    first, second = ("a = 1", "a = 10\nmore = 0"), ("c = 3", "c = 30")
    before, after, both = BASE, BASE.replace(*first), BASE.replace(*first).replace(*second)
    assert merged({"f": after}, {"f": before}, {"f": both}) == {"f": BASE.replace(*second)}
    assert merged({"f": both}, {"f": after}, {"f": both}) == {"f": after}, "and the last one, of all"


def test_an_edit_that_a_later_one_changes_stays_in() -> None:
    before, after, both = BASE, BASE.replace("b = 2", "b = 20"), BASE.replace("b = 2", "b = 21")
    assert merged({"f": after}, {"f": before}, {"f": both}) is None


def test_line_ends_are_as_they_were() -> None:
    base = BASE.replace("\n", "\r\n")
    found = together(base, base.replace("a = 1", "a = 10"), base.replace("c = 3\r\n", "c = 3\r\nd = 4"))
    assert found == "import os\r\n\r\na = 10\r\nb = 2\r\nc = 3\r\nd = 4"


def test_a_file_that_texts_do_not_hold_is_as_it_is(tmp_path: Path) -> None:
    script, data = (str(tmp_path / name) for name in ("train.py", "data.py"))
    Path(script).write_bytes(BASE.replace("\n", "\r\n").encode())
    Path(data).write_text("# coding: latin-1\nx = 'ä'\n", encoding="latin-1")
    edited, of_data = BASE.replace("\n", "\r\n").replace("a = 1", "a = 10"), "# coding: latin-1\nx = 'ä'\ny = 2\n"
    assert merged({}, {script: edited}, {data: of_data}) == {script: edited, data: of_data}
    on_top = edited.replace("c = 3", "c = 30")
    assert merged({script: edited}, {script: edited, data: of_data}, {script: on_top}) == {script: on_top, data: of_data}
    assert merged({}, {}, {}) == {}

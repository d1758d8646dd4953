"""What the code of a Python function says about its being a function of its arguments."""

from __future__ import annotations

import re
from typing import Any

import pytest

from outpace.tune.purity.reading import doubt
from tests.unit.tune.python_functions import CLEAN, IMPURE


@pytest.mark.parametrize("name", CLEAN)
def test_nothing_speaks_against_a_function_of_its_arguments(name: str) -> None:
    assert doubt(CLEAN[name]) is None


@pytest.mark.parametrize("name", IMPURE)
def test_what_speaks_against_a_function_is_named_with_its_line(name: str) -> None:
    function, words = IMPURE[name]
    found = doubt(function)
    assert found is not None and words in found
    assert name == "text" or re.search(r"python_functions\.py:\d+\)$", found)


def test_source_that_was_edited_is_not_trusted(tmp_path: Any) -> None:
    path = tmp_path / "edited.py"
    path.write_text("def f(x):\n    return x + 1\n", encoding="utf-8")
    names: dict[str, Any] = {"__name__": "edited"}
    exec(compile("def f(x):\n    return x + 2\n", str(path), "exec"), names)
    assert "source text of f cannot be read" in str(doubt(names["f"]))

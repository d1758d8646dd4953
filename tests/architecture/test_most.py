"""No sentence says "most of it" by itself: one function knows how much that is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from outpace.model.text import format_largest_part, is_majority

SOURCE = Path(__file__).parents[2] / "src" / "outpace"
JUDGES = ("advice", "compare", "metrics", "tools")
SAYS = re.compile(r"\bmost of (it|them|its|that)\b", re.IGNORECASE)


def said(tree: ast.Module) -> Iterator[str]:
    """The texts of a module that are no docstrings, comments or meanings of a schema's columns."""
    prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose and "\n" not in node.value:
            yield node.value


@pytest.mark.parametrize("part", JUDGES)
def test_one_function_says_what_is_most(part: str) -> None:
    for path in sorted((SOURCE / part).rglob("*.py")):
        for text in said(ast.parse(path.read_text(encoding="utf-8"))):
            assert not SAYS.search(text), f"{path.name}: {text!r} without outpace.model.text.format_largest_part"


def test_half_is_not_most() -> None:
    assert [is_majority(part, 2.0) for part in (0.0, 1.0, 1.001, 2.0)] == [False, False, True, True]
    assert format_largest_part("in conv", 0.4, 1.0) == "the largest part of it in conv"
    assert format_largest_part("at a.py:3", 3.0, 4.0, total_name="them") == "most of them at a.py:3"

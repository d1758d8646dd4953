"""Names of planes and stats stand in one file: what is above the trace asks by `dialect`'s."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from outpace.trace import dialect
from tests.architecture.source import FILES, literals, place, tree

ABOVE = [path for path in FILES if place(path).startswith(("timeline/", "metrics/", "tools/", "viewer/"))]
STATS = {value for key, value in vars(dialect).items() if key.isupper() and isinstance(value, str)}
ASKING = ("stat", "load", "find_stats", "plane", "planes_like")


@pytest.mark.parametrize("path", ABOVE, ids=place)
def test_names_are_those_of_the_dialect(path: Path) -> None:
    planes = [text for text in literals(path) if re.match(r"/(device|host):", text) or text == dialect.ENVIRONMENT_PLANE]
    assert not planes
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ASKING:
            written = [inner.value for part in node.args for inner in ast.walk(part) if isinstance(inner, ast.Constant)]
            assert not STATS.intersection(w for w in written if isinstance(w, str)), f"line {node.lineno}"


def test_every_name_is_used() -> None:
    used = {
        node.attr
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "dialect"
    }
    assert {key for key in vars(dialect) if key.isupper()} - used == set()

"""Sizes and separation of the sources. Exceptions are listed with their reason, and the lists only shrink."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from outpace.tools import discover

SOURCE = Path(__file__).parents[2] / "src" / "outpace"
FILES = sorted(SOURCE.rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 400, 60

LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}
OTHER_MEANINGS = {
    ("timeline/names.py", "tf_data"): "prefix of the names that TensorFlow gives its input threads",
    ("cli/__init__.py", "explain"): "name of a command",
    ("metrics/program.py", "inference"): "what a program does that predicts",
    ("timeline/infer.py", "inference"): "a word in the names of functions",
}


def place(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{place(path)}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def literals(path: Path) -> Iterator[str]:
    """Text constants of a file, without docstrings."""
    docs = {id(n.value) for n in ast.walk(tree(path)) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def imported(path: Path) -> Iterator[str]:
    """Modules that a file imports, wherever in it."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = ("outpace", *path.relative_to(SOURCE).with_suffix("").parts)[: -node.level] if node.level else ()
            module = ".".join((*above, *((node.module or "").split(".") if node.module else ())))
            yield from (f"{module}.{name.name}" for name in node.names)


def test_files_are_short() -> None:
    long = {place(p) for p in FILES if len(p.read_text(encoding="utf-8").splitlines()) > LONGEST_FILE}
    assert long == set(LONG_FILES)


def test_functions_are_short() -> None:
    long = {name for path in FILES for name, length in functions(path) if length > LONGEST_FUNCTION}
    assert long == set(LONG_FUNCTIONS)


@pytest.mark.parametrize("tool", [t.id for t in discover()])
def test_a_tool_is_named_in_its_own_folder_only(tool: str) -> None:
    """Nothing outside may know a tool: adding or removing one touches one folder."""
    word = re.compile(rf"(?<!\w){re.escape(tool)}(?!\w)")
    named = word.search if "_" in tool else word.fullmatch  # one word alone may be plain English inside a sentence
    elsewhere = [p for p in FILES if not place(p).startswith(f"tools/{tool}/")]
    users = {place(p) for p in elsewhere if any(named(text) for text in literals(p))}
    assert users == {file for file, meant in OTHER_MEANINGS if meant == tool}


def test_no_tool_imports_a_tool() -> None:
    folders = {p.parent.name for p in SOURCE.glob("tools/*/__init__.py")}
    assert folders
    for path in FILES:
        parts = place(path).split("/")
        own = parts[1] if parts[0] == "tools" and len(parts) > 2 else None
        others = tuple(f"outpace.tools.{name}" for name in folders - {own})
        wrong = [m for m in imported(path) if m.startswith(others) and (m + ".").startswith(tuple(o + "." for o in others))]
        assert not wrong, f"{place(path)} imports {wrong}"

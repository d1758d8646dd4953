"""The sources of the package, as the tests of its architecture read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "outpace"
FILES = sorted(SOURCE.rglob("*.py"))


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

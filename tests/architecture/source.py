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


@cache
def literals(path: Path) -> tuple[str, ...]:
    """Text constants of a file, without docstrings."""
    docs = {id(n.value) for n in ast.walk(tree(path)) if isinstance(n, ast.Expr)}
    nodes = (n for n in ast.walk(tree(path)) if isinstance(n, ast.Constant) and id(n) not in docs)
    return tuple(n.value for n in nodes if isinstance(n.value, str))


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Modules that a file imports, wherever in it."""
    found: list[str] = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found += (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = ("outpace", *path.relative_to(SOURCE).with_suffix("").parts)[: -node.level] if node.level else ()
            module = ".".join((*above, *((node.module or "").split(".") if node.module else ())))
            found += (f"{module}.{name.name}" for name in node.names)
    return tuple(found)

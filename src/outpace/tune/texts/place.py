# SPDX-License-Identifier: Apache-2.0
"""Where a loop stands in a text: what stays the same when lines move."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from outpace._dataclass import dataclass
from outpace.pyscope.nodes import SCOPES, iter_scope
from outpace.tune.texts.parsed import parsed

FIT = "fit"
MODULE = "<module>"
Loop = ast.For | ast.While


@dataclass(frozen=True)
class Place:
    """A loop of a text. file: absolute. function: its qualified name, `<module>` outside of all.
    path: numbers of loops, from the function's n-th one inwards; `fit` calls of Keras have none of
    all that.
    """

    file: str = ""
    function: str = FIT
    path: tuple[int, ...] = ()

    def __str__(self) -> str:
        if not self.file:
            return "fit"
        return f"{os.path.basename(self.file)} {self.function} loop {'.'.join(str(at + 1) for at in self.path)}"


def loops_of(tree: ast.Module) -> Iterator[tuple[str, tuple[int, ...], Loop]]:
    """All loops that are statements: the qualified name of their function, their path in it, and
    the loop.
    """
    yield from _loops(tree, MODULE, ())


def _loops(scope: ast.AST, name: str, around: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...], Loop]]:
    found = 0

    def within(node: ast.AST) -> Iterator[tuple[str, tuple[int, ...], Loop]]:
        nonlocal found
        for child in ast.iter_child_nodes(node):
            if isinstance(child, SCOPES):
                own = getattr(child, "name", "<lambda>")
                inner = (
                    own if name == MODULE else f"{name}.{own}" if isinstance(scope, ast.ClassDef) else f"{name}.<locals>.{own}"
                )
                yield from _loops(child, inner, ())
            elif isinstance(child, (ast.For, ast.While)):
                path = (*around, found)
                found += 1
                yield name, path, child
                yield from _loops(child, name, path)
            else:
                yield from within(child)

    yield from within(scope)


def may_be_left(loop: Loop) -> bool:
    """Whether a statement in a loop may end it before its last pass."""
    todo: list[ast.AST] = list(loop.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Break):
            return True
        if not isinstance(node, SCOPES):
            todo += node.orelse if isinstance(node, (ast.For, ast.While, ast.AsyncFor)) else list(ast.iter_child_nodes(node))
    return any(isinstance(node, ast.Return) for node in iter_scope(loop))


def loop_at(text: str, line: int, file: str) -> Place | None:
    """The place of the innermost loop whose statement stands at a line, or around it."""
    found = [
        (name, path, node) for name, path, node in loops_of(parsed(text)) if node.lineno <= line <= (node.end_lineno or line)
    ]
    best = min(found, key=lambda each: (each[2].lineno != line, (each[2].end_lineno or 0) - each[2].lineno), default=None)
    return Place(file, best[0], best[1]) if best is not None else None


def header_of(text: str, place: Place) -> str | None:
    """What the loop at a place goes over, as text in one form; None for a loop with a condition."""
    node = next((node for name, path, node in loops_of(parsed(text)) if (name, path) == (place.function, place.path)), None)
    return ast.unparse(node.iter) if isinstance(node, ast.For) else None

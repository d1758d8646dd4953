# SPDX-License-Identifier: Apache-2.0
"""Calls in a text as it is compiled: at the end of each pass of some loops, around what these go
over, and in each branch.

The text that Python's tools read stays as it is; what runs is the tree with calls in it, by names
that `builtins` holds (`install`).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from outpace.tune.texts.place import Loop, Place, loops_of

_PASS, _CUT, _MORE, _ENTER, _LEFT, _RAN, _RETURNED = (
    f"_outpace_{name}" for name in ("pass", "cut", "more", "enter", "left", "ran", "returned")
)

_WIDE = 100_000  # columns


def instrumented(
    tree: ast.Module,
    file: str,
    place: Place | None,
    header: str | None = None,
    *,
    endless: bool = False,
    lines: Mapping[int, int] | None = None,
) -> ast.Module:
    """The tree with marks at the loop of a place and at those around it, where it is in this file,
    and with marks in each branch.

    header: what the loop of the original goes over, which an edited one may hold inside of its own
    header or before it. endless: what the loop goes over is handed on as a function that makes it
    anew, and is not cut. lines: those of an edited text that the original has, too; None for the
    original.
    """
    if place is not None and place.file == file:
        around = {place.path[:length] for length in range(1, len(place.path) + 1)}
        for name, path, node in [*loops_of(tree)]:
            if name == place.function and path in around:
                _mark(node, ".".join(map(str, path)), header if path == place.path else None, endless)
        _Left(lines).visit(tree)
        if not endless:
            _Returned(tree).visit(tree)
    _Branches(file, all_of_them=not endless).visit(tree)
    return ast.fix_missing_locations(tree)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [*arguments], [])


def _mark(node: Loop, key: str, header: str | None, endless: bool) -> None:
    said = ast.Constant(key)
    node._outpace_key = key  # type: ignore[union-attr]
    if isinstance(node, ast.While):
        node.test = ast.BoolOp(ast.And(), [_call(_MORE, said), node.test])
        return
    if endless:
        node.iter = _call(_PASS, said, _maker(node.iter))
        return
    cut = _Cut(header, key)
    node.iter = cast("ast.expr", cut.visit(node.iter))
    if not cut.found:
        node.iter = _call(_CUT, said, node.iter)
    node.iter = _call(_PASS, said, node.iter)


def _maker(iterable: ast.expr) -> ast.Lambda:
    """A function that makes the iterable anew; where that does more than it says (a walrus names
    something), the same one each time.
    """
    if any(isinstance(each, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for each in ast.walk(iterable)):
        given = ast.arguments([], [ast.arg("made")], None, [], [], None, [iterable])
        return ast.Lambda(given, ast.Name("made", ast.Load()))
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), iterable)


class _Cut(ast.NodeTransformer):
    """Puts the cut around the user's own expression in the header of a loop."""

    def __init__(self, header: str | None, key: str) -> None:
        self.header, self.key, self.found = header, key, 0

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace the expression itself."""
        read = isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))
        if self.header is not None and read and not self.found and ast.unparse(node) == self.header:
            self.found = 1
            return _call(_CUT, ast.Constant(self.key), cast("ast.expr", node))
        return super().visit(node)  # type: ignore[no-any-return]


class _Left(ast.NodeTransformer):
    """Says before a loop that it begins, and behind it, and what an edit has put there, that it is
    over.
    """

    def __init__(self, lines: Mapping[int, int] | None) -> None:
        self._lines = lines

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Statements are put beside those that have a key."""
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and any(hasattr(each, "_outpace_key") for each in block):
                setattr(node, name, [*self._with_calls(block)])
        return node

    def _with_calls(self, block: list[ast.stmt]) -> Iterator[ast.stmt]:
        over: list[ast.stmt] = []
        for each in block:
            if not self._of_edit(each):
                yield from over
                over = []
            key = getattr(each, "_outpace_key", None)
            if key is None:
                yield each
                continue
            begins, ends = (ast.copy_location(ast.Expr(_call(name, ast.Constant(key))), each) for name in (_ENTER, _LEFT))
            yield from (begins, each)
            over = [ends]
        yield from over

    def _of_edit(self, statement: ast.stmt) -> bool:
        return self._lines is not None and statement.lineno not in self._lines


class _Returned(ast.NodeVisitor):
    """Says that a function is over that holds a loop with a key."""

    def __init__(self, tree: ast.AST) -> None:
        self._loops = [each for each in ast.walk(tree) if hasattr(each, "_outpace_key")]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """The innermost function around it."""
        self.generic_visit(node)
        held = [each for each in ast.walk(node) if each in self._loops]
        if held:
            self._loops = [each for each in self._loops if each not in held]
            call = _call(_RETURNED, ast.Constant(held[0]._outpace_key))  # type: ignore[attr-defined]
            around = ast.Try(node.body, [], [], [ast.copy_location(ast.Expr(call), node.body[-1])])
            node.body = [ast.copy_location(around, node.body[0])]


class _Branches(ast.NodeTransformer):
    """Notes which branches run, and which functions: by their first lines; values of conditional
    expressions by numbers below 0.
    """

    def __init__(self, file: str, all_of_them: bool) -> None:
        """all_of_them: functions and conditional expressions, too, which are called too often to be
        noted where time is measured.
        """
        self.file, self.all_of_them = file, all_of_them

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Behind what it says of itself."""
        at = node.body.index(_first(node))
        self.generic_visit(node)
        if self.all_of_them:
            node.body = [*node.body[:at], *self._noted(node.body[at:])]
        return node

    def _noted(self, body: list[ast.stmt]) -> list[ast.stmt]:
        if not body:
            return body
        line = body[0].lineno
        said = ast.Expr(_call(_RAN, ast.Constant(self.file), ast.Constant(line)))
        return [ast.copy_location(said, body[0]), *body]

    def visit_If(self, node: ast.If) -> ast.If:
        """Both of its branches."""
        self.generic_visit(node)
        node.body = self._noted(node.body)
        if node.orelse and not isinstance(node.orelse[0], ast.If):
            node.orelse = self._noted(node.orelse)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.IfExp:
        """Either of its values; these have no lines of their own."""
        self.generic_visit(node)
        if not self.all_of_them:
            return node
        at = 2 * (node.lineno * _WIDE + node.col_offset)
        node.body, node.orelse = (
            ast.BoolOp(ast.Or(), [_call(_RAN, ast.Constant(self.file), ast.Constant(-at - which)), each])
            for which, each in enumerate((node.body, node.orelse))
        )
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        """What runs for an exception."""
        self.generic_visit(node)
        node.body = self._noted(node.body)
        return node


def _first(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    return node.body[1] if len(node.body) > 1 and ast.get_docstring(node, clean=False) is not None else node.body[0]


def first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The line by which it is noted that a function runs."""
    return _first(node).lineno


def branches_of(tree: ast.Module) -> frozenset[int]:
    """The first lines of all branches, as they are noted."""
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.ExceptHandler)):
            lines.add(node.body[0].lineno)
        if isinstance(node, ast.If) and node.orelse and not isinstance(node.orelse[0], ast.If):
            lines.add(node.orelse[0].lineno)
    return frozenset(lines)


def install(**functions: Callable[..., object]) -> None:
    """Let every module see what the calls mean: `pass_`, `cut`, `more`, `enter`, `left`, `ran`,
    `returned`.
    """
    for name, function in functions.items():
        setattr(builtins, f"_outpace_{name.rstrip('_')}", function)

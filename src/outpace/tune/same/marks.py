"""Marks in a text as it is compiled: at the end of each pass of some loops, which end after a number of passes, and in each branch.

The text that Python's tools read stays as it is; what runs is the tree with calls in it, by names that `builtins` holds meanwhile."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from types import FrameType
from typing import Any

from outpace._dataclass import dataclass
from outpace.tune.same.record import Place

END = -1  # instead of a pass: behind the loop
ENTRIES = 2  # of a loop that are read
OUTER_PASSES = 2  # of loops around
_PASS, _CUT, _MORE, _ENTER, _LEFT, _RAN = (f"_outpace_{name}" for name in ("pass", "cut", "more", "enter", "left", "ran"))
Loop = ast.For | ast.While
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def loops_of(tree: ast.Module) -> Iterator[tuple[str, tuple[int, ...], Loop]]:
    """All loops that are statements: the qualified name of their function, their path in it, and the loop."""
    yield from _loops(tree, "<module>", ())


def _loops(scope: ast.AST, name: str, around: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...], Loop]]:
    found = 0

    def within(node: ast.AST) -> Iterator[tuple[str, tuple[int, ...], Loop]]:
        nonlocal found
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _SCOPES):
                own = getattr(child, "name", "<lambda>")
                inner = (
                    own
                    if name == "<module>"
                    else f"{name}.{own}"
                    if isinstance(scope, ast.ClassDef)
                    else f"{name}.<locals>.{own}"
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


def loop_at(text: str, line: int, file: str) -> Place | None:
    """The place of the innermost loop whose statement stands at a line, or around it."""
    found = [
        (name, path, node) for name, path, node in loops_of(ast.parse(text)) if node.lineno <= line <= (node.end_lineno or line)
    ]
    best = min(found, key=lambda each: (each[2].lineno != line, (each[2].end_lineno or 0) - each[2].lineno), default=None)
    return Place(file, best[0], best[1]) if best is not None else None


def header_of(text: str, place: Place) -> str | None:
    """What the loop at a place goes over, as text in one form; None for a loop with a condition."""
    node = next((node for name, path, node in loops_of(ast.parse(text)) if (name, path) == (place.function, place.path)), None)
    return ast.unparse(node.iter) if isinstance(node, ast.For) else None


def instrumented(tree: ast.Module, file: str, place: Place | None, header: str | None = None) -> ast.Module:
    """The tree with marks at the loop of a place and at those around it, where it is in this file, and with marks in each branch.

    header: what the loop of the original goes over, which an edited one may hold inside of its own header or before it.
    """
    if place is not None and place.file == file:
        around = {place.path[:length] for length in range(1, len(place.path) + 1)}
        for name, path, node in [*loops_of(tree)]:
            if name == place.function and path in around:
                _mark(node, ".".join(map(str, path)), header if path == place.path else None)
        _Left().visit(tree)
    _Branches(file).visit(tree)
    return ast.fix_missing_locations(tree)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [*arguments], [])


def _mark(node: Loop, key: str, header: str | None) -> None:
    said = ast.Constant(key)
    node._outpace_key = key  # type: ignore[union-attr]
    if isinstance(node, ast.While):
        node.test = ast.BoolOp(ast.And(), [_call(_MORE, said), node.test])
        return
    cut = _Cut(header, key)
    node.iter = cut.visit(node.iter)
    if not cut.found:
        node.iter = _call(_CUT, said, node.iter)
    node.iter = _call(_PASS, said, node.iter)


class _Cut(ast.NodeTransformer):
    """Puts the cut around the user's own expression in the header of a loop."""

    def __init__(self, header: str | None, key: str) -> None:
        self.header, self.key, self.found = header, key, 0

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace the expression itself."""
        if self.header is not None and isinstance(node, ast.expr) and not self.found and ast.unparse(node) == self.header:
            self.found = 1
            return _call(_CUT, ast.Constant(self.key), node)
        return super().visit(node)  # type: ignore[no-any-return]


class _Left(ast.NodeTransformer):
    """Says before a loop that it begins, and behind it that it is over."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Statements are put beside those that have a key."""
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and any(hasattr(each, "_outpace_key") for each in block):
                setattr(node, name, [one for each in block for one in self._around(each)])
        return node

    def _around(self, each: ast.stmt) -> list[ast.stmt]:
        key = getattr(each, "_outpace_key", None)
        if key is None:
            return [each]
        calls = [ast.copy_location(ast.Expr(_call(name, ast.Constant(key))), each) for name in (_ENTER, _LEFT)]
        return [calls[0], each, calls[1]]


class _Branches(ast.NodeTransformer):
    """Notes which branches run."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: set[int] = set()

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

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        """What runs for an exception."""
        self.generic_visit(node)
        node.body = self._noted(node.body)
        return node


def branches_of(tree: ast.Module) -> frozenset[int]:
    """The first lines of all branches, as they are noted."""
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.ExceptHandler)):
            lines.add(node.body[0].lineno)
        if isinstance(node, ast.If) and node.orelse and not isinstance(node.orelse[0], ast.If):
            lines.add(node.orelse[0].lineno)
    return frozenset(lines)


@dataclass(eq=False)
class Marks:
    """What the marks call. cut: passes after which the loop is over. grouped: an item of the edited loop begins with a list of the items of so
    many passes. began: told when a loop begins for the first time, with the user's frame. passed: told of each pass to be read: the loop, how
    often it was entered, the number of passes, and the user's frame."""

    cut: int
    grouped: bool
    began: Callable[[FrameType], None]
    passed: Callable[[str, int, int, FrameType], None]
    innermost: str = ""
    ran: dict[str, set[int]] = field(default_factory=dict)
    passes: dict[str, int] = field(default_factory=dict)
    _entries: dict[str, int] = field(default_factory=dict)

    def install(self) -> None:
        """Let every module see the names."""
        names: Mapping[str, Any] = {
            _PASS: self._pass, _CUT: self._cut, _MORE: self._more, _ENTER: self._enter, _LEFT: self._left,
            _RAN: lambda file, line: self.ran.setdefault(file, set()).add(line),
        }  # fmt: skip
        for name, function in names.items():
            setattr(builtins, name, function)

    def _most(self, key: str) -> int:
        return self.cut if key == self.innermost else OUTER_PASSES

    def _enter(self, key: str) -> None:
        if not self._entries:
            self.began(sys._getframe(1))
        self._entries[key] = self._entries.get(key, 0) + 1
        self.passes[key] = 0

    def _cut(self, key: str, items: Iterable[Any]) -> Iterable[Any]:
        """The first items."""
        return _First(items, self._most(key))

    def _pass(self, key: str, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            yield item
            self._made(key, len(item[0]) if self.grouped and key == self.innermost else 1, sys._getframe(1))

    def _more(self, key: str) -> bool:
        """Asked before each pass of a loop with a condition."""
        if (made := self.passes[key]) >= 0 and f"{key}?" in self._entries and self._entries[f"{key}?"] == self._entries[key]:
            self._made(key, 1, sys._getframe(1))
            made += 1
        self._entries[f"{key}?"] = self._entries[key]
        return made < self._most(key)

    def _made(self, key: str, passes: int, frame: FrameType) -> None:
        self.passes[key] = made = self.passes[key] + passes
        if self._entries[key] <= ENTRIES and (made & (made - 1) == 0 or made == self._most(key)):
            self.passed(key, self._entries[key], made, frame)

    def _left(self, key: str) -> None:
        if self._entries[key] <= ENTRIES:
            self.passed(key, self._entries[key], END, sys._getframe(1))


class _First:
    """The first items of something, which otherwise is what it was."""

    def __init__(self, items: Iterable[Any], most: int) -> None:
        self._items, self._most = items, most

    def __iter__(self) -> Iterator[Any]:
        at = 0
        if at < self._most:
            for item in self._items:
                yield item
                at += 1
                if at >= self._most:
                    return

    def __len__(self) -> int:
        return min(len(self._items), self._most)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)

"""Assignments that may yet change what a traced function keeps: in branches that have not run, or whose value has not changed so far."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from outpace._dataclass import dataclass
from outpace.tune.texts.marks import first_line
from outpace.tune.texts.place import Loop

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CHANGING = frozenset({"update", "append", "extend", "insert", "pop", "clear", "setdefault", "set", "add", "remove", "fill"})


@dataclass(frozen=True)
class Kept:
    """What a function keeps that was traced. read: as its text has it. last: what an assignment that changes it names. owner: what that is
    taken of, empty for a name. free: whether it is a name of a function around. kind: `.` or `[` for an attribute or an item of its owner."""

    read: str
    function: str
    last: str
    owner: str = ""
    free: bool = False
    kind: str = ""


@dataclass(frozen=True)
class Ran:
    """Of one file, first lines of functions and branches that have run: before training, and in it."""

    before: frozenset[int]
    during: frozenset[int]


def may_change(tree: ast.Module, loop: Loop | None, ran: Ran, kept: Iterable[Kept]) -> Iterator[tuple[Kept, int]]:
    """What is kept and may yet change, with the line that does so. loop: the outermost that trains, where it is in this file."""
    by_name: dict[str, list[Kept]] = {}
    for each in kept:
        for name in {each.last, each.owner} - {""}:
            by_name.setdefault(name, []).append(each)
    for store in _stores(tree, loop, ran, None, False, True):
        for each in by_name.get(store.name, ()):
            if _fits(store, each):
                yield each, store.line


@dataclass(frozen=True)
class _Store:
    """name: of what is set, or changed inside: one of its items, or of its attributes (`within`: `[` or `.`). plain: whether it is a variable.
    local: whether it is a function's."""

    name: str
    line: int
    within: str = ""
    plain: bool = False
    local: bool = False


def _fits(store: _Store, kept: Kept) -> bool:
    if store.within:
        return store.name == kept.last or store.within == kept.kind
    if store.name != kept.last:
        return False
    if not store.plain:
        return bool(kept.owner)
    return not kept.owner and kept.free == store.local


def _stores(node: ast.AST, loop: Loop | None, ran: Ran, function: Any, inside: bool, runs: bool) -> Iterator[_Store]:
    """Of what is below a node that training may reach. inside: whether it is part of training; runs: whether it has run there."""
    if isinstance(node, _FUNCTIONS):
        line = first_line(node)
        if line in ran.before and line not in ran.during and not _holds(node, loop):
            return
        function, inside, runs = node, not _holds(node, loop), line in ran.during
    inside = inside or node is loop
    if inside:
        yield from _of_statement(node, function, runs)
    for name, each in ast.iter_fields(node):
        branch = (
            name in ("body", "orelse")
            and isinstance(each, list)
            and isinstance(node, (ast.If, ast.ExceptHandler))
            and bool(each)
        )
        nested = branch and name == "orelse" and isinstance(each[0], ast.If)
        has_run = runs and (not branch or nested or each[0].lineno in ran.during)
        for child in each if isinstance(each, list) else [each]:
            if isinstance(child, ast.AST):
                yield from _stores(child, loop, ran, function, inside, has_run)


def _holds(function: ast.AST, loop: Loop | None) -> bool:
    return loop is not None and any(each is loop for each in ast.walk(function))


def _of_statement(node: ast.AST, function: Any, runs: bool) -> Iterator[_Store]:
    if isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, (ast.AugAssign, ast.For)):
        yield from _of_targets(node, [node.target], function)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and not (
        runs and isinstance(node.value, ast.Constant)  # which is the same each time
    ):
        yield from _of_targets(node, node.targets if isinstance(node, ast.Assign) else [node.target], function)


def _of_targets(node: Any, targets: Sequence[ast.expr], function: Any) -> Iterator[_Store]:
    free, outer = (
        {name for each in ast.walk(function) if isinstance(each, kinds) for name in each.names}
        if function is not None
        else set()
        for kinds in (ast.Nonlocal, (ast.Global, ast.Nonlocal))
    )
    for each in (each for target in targets for each in ast.walk(target) if isinstance(getattr(each, "ctx", None), ast.Store)):
        if isinstance(each, ast.Name):
            local = function is not None and (each.id not in outer or each.id in free)
            yield _Store(each.id, node.lineno, plain=True, local=local)
        elif isinstance(each, ast.Attribute):
            yield _Store(each.attr, node.lineno)
        elif isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Constant):
            yield _Store(str(each.slice.value), node.lineno)
        elif isinstance(each, ast.Subscript):
            yield _Store(_last(each.value), node.lineno, within="[")


def _of_call(node: ast.Call) -> Iterator[_Store]:
    if isinstance(node.func, ast.Name) and node.func.id == "setattr" and len(node.args) == 3:
        name = node.args[1]
        if isinstance(name, ast.Constant):
            yield _Store(str(name.value), node.lineno)
        else:
            yield _Store(_last(node.args[0]), node.lineno, within=".")
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
        yield _Store(_last(node.func.value), node.lineno, within="[")


def _last(node: ast.AST) -> str:
    """What a chain ends with."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return node.id if isinstance(node, ast.Name) else ""

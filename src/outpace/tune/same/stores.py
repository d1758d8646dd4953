# SPDX-License-Identifier: Apache-2.0
"""Assignments that may yet change what a traced function keeps: in branches that have not run, or
whose value has not changed so far.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from outpace._dataclass import dataclass
from outpace.pyscope.mutations import Mutation, iter_mutations, last_name
from outpace.pyscope.nodes import DEFINITIONS, code_line, contains
from outpace.tune.texts.marks import first_line
from outpace.tune.texts.place import Loop


@dataclass(frozen=True)
class Kept:
    """What a function keeps that was traced. read: as its text has it. last: what an assignment
    that changes it names. owner: what that is taken of, empty for a name. free: whether it is a
    name of a function around. kind: `.` or `[` for an attribute or an item of its owner.
    """

    read: str
    function: str
    last: str
    owner: str = ""
    free: bool = False
    kind: str = ""


@dataclass(frozen=True)
class Ran:
    """Of one file, first lines of functions and branches that have run: before training, and in it.
    around: of functions that had begun before it, and nobody knows what they do behind it: the
    first lines of their code, 0 for the module, each with the line where it was.
    """

    before: frozenset[int]
    during: frozenset[int]
    around: Mapping[int, int] = field(default_factory=dict)


def may_change(tree: ast.Module, loop: Loop | None, ran: Ran, kept: Iterable[Kept]) -> Iterator[tuple[Kept, int]]:
    """What is kept and may yet change, with the line that does so. loop: the outermost that trains,
    where it is in this file.
    """
    by_name: dict[str, list[Kept]] = {}
    for each in kept:
        for name in {each.last, each.owner} - {""}:
            by_name.setdefault(name, []).append(each)
    reach = _Reach(loop, ran, _called_later(tree, loop, ran))
    for store in _stores(tree, reach, None, False, True):
        for each in {*by_name.get(store.name, ()), *by_name.get(store.owner, ())}:
            if _fits(store, each):
                yield each, store.line


@dataclass(frozen=True)
class _Reach:
    """What training may yet reach. called: names of functions that it may call, by what it has not
    run so far.
    """

    loop: Loop | None
    ran: Ran
    called: frozenset[str]

    def over(self, function: Any) -> bool:
        """Whether a function ran before training, and is no part of it."""
        line = first_line(function)
        if code_line(function) in self.ran.around:
            return False
        before = line in self.ran.before and line not in self.ran.during and not _holds(function, self.loop)
        return before and function.name not in self.called

    def whole(self, function: Any) -> bool:
        """Whether all of a function is part of training, or may yet be."""
        return not _holds(function, self.loop) and code_line(function) not in self.ran.around

    def behind(self, node: ast.AST, function: Any) -> bool:
        """Whether a statement stands behind the training, in a function that goes on with it."""
        begun = self.ran.around.get(code_line(function) if function is not None else 0)
        return begun is not None and isinstance(node, ast.stmt) and node.lineno > begun


def _called_later(tree: ast.Module, loop: Loop | None, ran: Ran) -> frozenset[str]:
    """Names of functions that training may yet call though they ran only before it: by calls in
    what it may reach, and in those in turn.
    """
    called = frozenset[str]()
    while True:
        reach = _Reach(loop, ran, called)
        found = frozenset(last_name(each.func) for each in _reached(tree, reach, None, False) if isinstance(each, ast.Call))
        if found <= called:
            return called
        called |= found


def _reached(node: ast.AST, reach: _Reach, function: Any, inside: bool) -> Iterator[ast.AST]:
    """What is below a node and part of training, or may yet be. function: that it stands in."""
    if isinstance(node, DEFINITIONS):
        if reach.over(node):
            return
        function, inside = node, reach.whole(node)
    inside = inside or node is reach.loop or reach.behind(node, function)
    if inside:
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _reached(child, reach, function, inside)


def _fits(store: Mutation, kept: Kept) -> bool:
    if store.within:
        return store.name == kept.last or store.within == kept.kind
    if store.owner and store.owner == kept.last:
        return True
    if store.name != kept.last:
        return False
    if not store.is_variable:
        return bool(kept.owner) or not kept.free  # a global is an attribute of its module, and an item of its names
    return not kept.owner and kept.free == store.is_local


def _stores(node: ast.AST, reach: _Reach, function: Any, inside: bool, runs: bool) -> Iterator[Mutation]:
    """Of what is below a node that training may reach. inside: whether it is part of training;
    runs: whether it has run there.
    """
    if isinstance(node, DEFINITIONS):
        if reach.over(node):
            return
        function, inside, runs = node, reach.whole(node), first_line(node) in reach.ran.during
    if reach.behind(node, function):
        inside, runs = True, False
    inside = inside or node is reach.loop
    if inside and not (runs and _sets_constant(node)):
        yield from iter_mutations(node, function)
    for name, each in ast.iter_fields(node):
        branch = (
            name in ("body", "orelse")
            and isinstance(each, list)
            and isinstance(node, (ast.If, ast.ExceptHandler))
            and bool(each)
        )
        nested = branch and name == "orelse" and isinstance(each[0], ast.If)
        has_run = runs and (not branch or nested or each[0].lineno in reach.ran.during)
        for child in each if isinstance(each, list) else [each]:
            if isinstance(child, ast.AST):
                yield from _stores(child, reach, function, inside, has_run)


def _sets_constant(node: ast.AST) -> bool:
    """Whether a statement assigns what is the same each time."""
    return isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and isinstance(node.value, ast.Constant)


def _holds(function: ast.AST, loop: Loop | None) -> bool:
    return loop is not None and contains(function, loop)

# SPDX-License-Identifier: Apache-2.0
"""What the text of a function reads of values that are not its own: names, with the attributes and
items that it takes of them.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
from collections.abc import Sequence
from types import CodeType
from typing import Any

from outpace._dataclass import dataclass
from outpace.pyscope.names import outer_names, stored_names
from outpace.pyscope.nodes import FUNCTIONS, code_line, is_read, iter_scope, parameter_names
from outpace.tune.texts.parsed import parsed


@dataclass(frozen=True)
class Read:
    """root: a name. steps: what is taken of its value, outermost last: `.` and an attribute, or `[`
    and a key. handed: what it only goes on to, as it is, where that is called: its text. given:
    whether the name is a parameter's.
    """

    root: str
    steps: tuple[tuple[str, Any], ...] = ()
    handed: str = ""
    given: bool = False

    def __str__(self) -> str:
        return self.root + "".join(f".{key}" if kind == "." else f"[{key!r}]" for kind, key in self.steps)

    @property
    def last(self) -> str:
        """What an assignment that changes it names: the attribute, the key, or the name itself."""
        return str(self.steps[-1][1]) if self.steps else self.root

    @property
    def owner(self) -> str:
        """What the last thing is taken of; empty for a name alone."""
        return "" if not self.steps else str(self.steps[-2][1]) if len(self.steps) > 1 else self.root


@functools.cache
def reads_of(code: CodeType) -> frozenset[Read]:
    """Of the function of some code, by the text of its file; nested functions are functions of
    their own.
    """
    return frozenset(read for node in _nodes(code) for read in _Reads(node).found)


@functools.lru_cache(maxsize=64)
def _functions(file: str) -> dict[tuple[int, str], list[ast.AST]]:
    found: dict[tuple[int, str], list[ast.AST]] = {}
    try:
        tree = parsed("".join(linecache.getlines(file)))
    except SyntaxError:
        return found
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            found.setdefault((code_line(node), getattr(node, "name", "<lambda>")), []).append(node)
    return found


def _nodes(code: CodeType) -> list[ast.AST]:
    return _functions(code.co_filename).get((code.co_firstlineno, code.co_name), [])


class _Reads(ast.NodeVisitor):
    """Of one function's own statements."""

    def __init__(self, node: Any) -> None:
        self.found: set[Read] = set()
        self._given = set(parameter_names(node))
        own = list(iter_scope(node, FUNCTIONS))
        defined = {getattr(each, "name", "") for each in own if isinstance(each, FUNCTIONS)}
        self._local = {*stored_names(own), *defined} - outer_names(own) - self._given
        for statement in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(statement)

    def _read(self, node: ast.AST, handed: str = "") -> bool:
        """Note a chain; whether it is one."""
        chain = _chain(node)
        if chain is None:
            return False
        root, steps = chain
        known = root in self._local or (root not in self._given and not steps and hasattr(builtins, root))
        if not known:
            self.found.add(Read(root, steps, handed, root in self._given))
        return True

    def visit_Name(self, node: ast.Name) -> None:
        """A name that is read as it is."""
        if is_read(node):
            self._read(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """A chain that ends with an attribute."""
        if is_read(node) and not self._read(node):
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """A chain that ends with an item."""
        if is_read(node) and not self._read(node):
            self.generic_visit(node)
        elif not is_read(node):
            self.visit(node.slice)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """What is counted up is read."""
        self._read(node.target)
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """What is handed on is told apart."""
        if self._read(node):
            for each in node.args[1:]:  # what stands for a missing item
                self.visit(each)
            return
        plain = isinstance(node.func, ast.Name) and hasattr(builtins, node.func.id)
        to = "" if plain else ast.unparse(node.func)
        for each in (*node.args, *(keyword.value for keyword in node.keywords)):
            if not self._read(each, to):
                self.visit(each)
        self.visit(node.func)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Another function."""

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Another function."""


def _constant(nodes: Sequence[ast.expr]) -> bool:
    return bool(nodes) and all(isinstance(each, ast.Constant) for each in nodes)


def _chain(node: ast.AST) -> tuple[str, tuple[tuple[str, Any], ...]] | None:
    """A name and what is taken of it; None for what begins otherwise."""
    step: tuple[str, Any]
    if isinstance(node, ast.Name):
        return node.id, ()
    if isinstance(node, ast.Attribute):
        inner, step = node.value, (".", node.attr)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        inner, step = node.value, ("[", node.slice.value)
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and isinstance(node.args[1], ast.Constant):
        inner, step = node.args[0], (".", node.args[1].value)
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and _constant(node.args[:1])
    ):
        inner, step = node.func.value, ("[", node.args[0].value)  # type: ignore[attr-defined]
    else:
        return None
    found = _chain(inner)
    return None if found is None else (found[0], (*found[1], step))

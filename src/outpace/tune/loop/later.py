# SPDX-License-Identifier: Apache-2.0
"""Statements of a loop that read values in every step, and so wait for the device: which may come
later, for many steps at once.
"""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, TypeGuard

from outpace._dataclass import dataclass
from outpace.pyscope.names import assigned_names, read_names, required_names, unused_name
from outpace.pyscope.nodes import COMPREHENSIONS, is_read

AT_ONCE = 50  # steps whose values are read together
_READS = frozenset(
    {"float", "int", "bool", "print", "str", "round", "format"}
)  # functions that read the value of what they are given
_PURE = _READS | {"len", "abs", "min", "max", "sum", "repr"}
_READING = frozenset({"item", "tolist", "numpy"})  # methods that read a value
_WAITING = _READING | {"block_until_ready"}
_FUNCTIONS = ("asarray", "array", "device_get", "block_until_ready")
_ON_BATCH = frozenset({"train_on_batch", "test_on_batch"})
_PLAIN = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)
_DEEPEST = 3  # values in values that are looked at


@dataclass(frozen=True)
class Sync:
    """A place where each step reads a value. line: in the loop's file; said: the expression."""

    line: int
    said: str


@dataclass(frozen=True, eq=False)
class Moved:
    """A statement that may come later. later: its text then; aside: what is evaluated in its step
    for that, as (name, expression).
    """

    line: int
    later: str
    aside: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Later:
    """Of a loop, which begins at a line of a file. moved: the statements that may come later;
    given: the names that they need of each step. stay: (line, why) of statements that read a value,
    and must stay where they are.
    """

    file: str
    line: int
    found: tuple[Sync, ...]
    moved: tuple[Moved, ...]
    given: tuple[str, ...]
    stay: tuple[tuple[int, str], ...]


def later_of(frame: FrameType, loop: ast.For | ast.While, makes_step: Callable[[ast.stmt], bool]) -> Later:
    """Look at a loop that a frame is in. `makes_step`: whether one of its statements makes the
    step, or a part of it.
    """
    values = {**frame.f_globals, **frame.f_locals}
    made = assigned_names([loop])
    tensors = {name for name in made if _holds_tensor(values.get(name))}
    found: list[Sync] = []
    stay: list[tuple[int, str]] = []
    groups: list[list[ast.stmt]] = []
    for at, each in enumerate(loop.body):
        if makes_step(each) or not isinstance(each, (*_PLAIN, ast.If)):
            continue
        every = each.test if isinstance(each, ast.If) else each
        reads = [Sync(node.lineno, ast.unparse(node)) for node in _reads(every, tensors)]
        asked = [Sync(node.lineno, f"{ast.unparse(node.func)}(...)") for node in ast.walk(every) if _asks_keras(node)]
        found += [*reads, *asked]
        stay += [
            (sync.line, f"{sync.said} gives its loss and metrics back as numbers; fit reads them once an epoch")
            for sync in asked
        ]
        if reads:
            groups.append(_with_readers(loop.body[at:]))
    while True:
        later = _Later(loop, [each for each in loop.body if any(each in group for group in groups)], values, tensors)
        refused = next(((group, why) for group in groups if (why := _stays(group, loop, later, makes_step))), None)
        if refused is None:
            return Later(frame.f_code.co_filename, loop.lineno, tuple(found), later.texts(), tuple(later.given), tuple(stay))
        groups.remove(refused[0])
        stay.append((refused[0][0].lineno, refused[1]))


def _with_readers(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The first statement, and those that read what it assigns, or what they do."""
    group, own = [statements[0]], {*assigned_names(statements[:1])}
    for each in statements[1:]:
        if own & read_names([each]):
            group.append(each)
            own |= {*assigned_names([each])}
    return group


def _stays(group: Sequence[ast.stmt], loop: ast.For | ast.While, later: _Later, makes_step: Callable[[ast.stmt], bool]) -> str:
    """Why statements cannot come later; empty where they can."""
    line = group[0].lineno
    for each in group:
        if not isinstance(each, _PLAIN):
            return f"what is done at line {each.lineno} decides what the loop does"
        if makes_step(each) or later.tensors & {*assigned_names([each])}:
            return f"what it gives is needed in the step, at line {each.lineno}"
    rest = [each for each in loop.body if each not in later.moved]
    head: list[ast.AST] = [loop.target, loop.iter] if isinstance(loop, ast.For) else [loop.test]
    changed = {*assigned_names(group), *later.touched(group)} & {*read_names([*head, *rest]), *assigned_names([*head, *rest])}
    if changed:
        return f"{min(changed)}, which line {line} changes, is needed by other statements of the loop"
    held = read_names([later.texts_of[each] for each in group]) & later.states
    return f"line {line} reads {min(held)}, which would be held for many steps" if held else ""


def _holds_tensor(value: Any, depth: int = _DEEPEST) -> bool:
    """Whether a value is a tensor, or an array of a device, or has one for a part."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return hasattr(value, "numpy") or hasattr(value, "block_until_ready")
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return depth > 0 and any(_holds_tensor(each, depth - 1) for each in parts)


def _reads(node: ast.AST, tensors: set[str]) -> list[ast.expr]:
    """The innermost expressions of a node that read the value of a tensor."""
    children = (each for each in ast.iter_child_nodes(node) if not isinstance(each, (ast.Lambda, ast.FunctionDef)))
    inner = [found for child in children for found in _reads(child, tensors)]
    if not inner and isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name) and node.value.id in tensors:
        return [node.value]
    return inner or ([node] if isinstance(node, ast.Call) and _is_read(node, tensors) else [])


def _asks_keras(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether a call makes a step of a Keras model that gives numbers back."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ON_BATCH


def _is_read(call: ast.Call, tensors: set[str]) -> bool:
    given = bool(tensors & read_names(call.args))
    if isinstance(call.func, ast.Name):
        asks = (each.func for each in call.args if isinstance(each, ast.Call))
        metric = any(isinstance(each, ast.Attribute) and each.attr == "result" for each in asks)
        return call.func.id in _READS and (given or metric)
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _READING and not call.args:
        return True
    waits = call.func.attr == "block_until_ready" and tensors & read_names([call.func.value])
    return bool(waits) or (
        given and call.func.attr in _FUNCTIONS and ast.unparse(call.func.value) in ("np", "numpy", "jax", "onp")
    )


class _Later(ast.NodeTransformer):
    """Statements of a loop as they may come later: names that the loop assigns stay names, and what
    else depends on the moment of a step (attributes, parts, calls that read no value) becomes some,
    which are `given`.
    """

    def __init__(
        self, loop: ast.For | ast.While, moved: Sequence[ast.stmt], values: Mapping[str, Any], tensors: set[str]
    ) -> None:
        self.moved, self.tensors, self._values = moved, tensors, values
        self._own = {*assigned_names(moved)}  # what they assign themselves
        self._stored = {*assigned_names([loop])} - self._own
        self._taken = {*values, *self._stored, *self._own}
        carried = {*required_names(loop.body)} & {*assigned_names(loop.body)}
        self.states = {name for name in carried & tensors if getattr(values.get(name), "shape", None) != ()}
        self.given: dict[str, str] = {}
        self.texts_of: dict[ast.stmt, ast.stmt] = {}
        self._aside: dict[ast.stmt, tuple[tuple[str, str], ...]] = {}
        for each in moved:
            before = {*self.given}
            self.texts_of[each] = self.visit(copy.deepcopy(each)) if isinstance(each, _PLAIN) else each
            new = ((name, text) for name, text in self.given.items() if name not in before and name != text)
            self._aside[each] = tuple(new)

    def texts(self) -> tuple[Moved, ...]:
        """Of all of them."""
        return tuple(Moved(each.lineno, ast.unparse(self.texts_of[each]), self._aside[each]) for each in self.moved)

    def touched(self, group: Sequence[ast.stmt]) -> set[str]:
        """Names of the program's objects that some of them may change or read: neither functions,
        modules nor numbers.
        """
        names = read_names([self.texts_of[each] for each in group]) - {*self.given} - self._own
        objects = {name: self._values[name] for name in names if name in self._values}
        plain = (int, float, str, type(sys))
        return {name for name, value in objects.items() if not callable(value) and not isinstance(value, plain)}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._stored and is_read(node):
            self.given[node.id] = node.id
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._kept(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self._kept(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        pure = isinstance(node.func, ast.Name) and node.func.id in _PURE
        if not pure and not _reads(node, self.tensors):
            return self._kept(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _WAITING:
            node.func.value = self.visit(node.func.value)
        else:  # what it is a method of is the same object then
            self._names(node.func)
        node.args = [self.visit(each) for each in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Expressions with names of their own stay whole."""
        if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            self._names(node)
            return node
        return super().generic_visit(node)

    def _names(self, node: ast.AST) -> None:
        for name in read_names([node]) & self._stored:
            self.given[name] = name

    def _kept(self, node: ast.expr) -> ast.AST:
        """An expression that is evaluated in its step."""
        if read_names([node]) & self._own or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            self._names(node)
            return node
        text = ast.unparse(node)
        name = next((name for name, said in self.given.items() if said == text), None)
        if name is None:
            words = [each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)]
            wanted = words[0] if words else "value"
            name = unused_name(wanted, self._taken)
            self._taken.add(name)
            self.given[name] = text
        return ast.copy_location(ast.Name(name, ast.Load()), node)

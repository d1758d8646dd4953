# SPDX-License-Identifier: Apache-2.0
"""The loop in the user's source that makes the training steps, found in the stack; and what its
statements mean and do.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FrameType, FunctionType
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture import frames
from outpace.pyscope.names import read_names, unused_name, used_names
from outpace.pyscope.nodes import DEFINITIONS, SCOPES, code_line, iter_calls
from outpace.tune.texts.parsed import parsed

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit"})
SAID = "said"  # of a statement that stands in no file: its text
GIVES = "gives"  # of such a one that is a part of a step: the value of its name


@dataclass(frozen=True, eq=False)
class Statement:
    """A `for` or `while` statement of a file, and the frame that was in it."""

    file: str
    line: int
    frame: FrameType
    node: ast.For | ast.While

    @classmethod
    def around(cls, frame: FrameType | None) -> Statement | None:
        """The outermost loop of the user's code that a frame, or one that called it, is in; None
        where there is none.
        """
        found = None
        while frame is not None:
            if in_script(frame):
                node = loop_at(frame)
                found = cls(frame.f_code.co_filename, node.lineno, frame, node) if node is not None else found
            frame = frame.f_back
        return found

    @property
    def place(self) -> str:
        """File and line, as the user knows them."""
        return f"{os.path.relpath(self.file)}:{self.line}"


def in_script(frame: FrameType) -> bool:
    """Whether a frame is of the user's own code, and no generator, whose loops are those of another
    one.
    """
    return frames.is_user_file(frame.f_code.co_filename) and not frame.f_code.co_flags & _GENERATORS


def loop_at(frame: FrameType) -> ast.For | ast.While | None:
    """The outermost loop of a frame's function that its line is in."""
    return loop_of(source_of(frame)[0], frame.f_lineno)


def source_of(frame: FrameType) -> tuple[ast.Module, list[str]]:
    """The source of a frame's file, parsed and by line; empty where it is not at hand."""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    try:
        return parsed("".join(lines)), lines
    except (SyntaxError, ValueError):
        return ast.Module([], []), []


def loop_of(tree: ast.AST, line: int) -> ast.For | ast.While | None:
    """The outermost loop of the innermost function around a line."""
    return next(iter(loops_around(tree, line)), None)


def innermost(tree: ast.AST, line: int) -> ast.For | ast.While | None:
    """The innermost loop around a line, inside of the function that the line is in."""
    return next(reversed(loops_around(tree, line)), None)


def innermost_around(frame: FrameType | None) -> tuple[FrameType, ast.For | ast.While] | None:
    """The nearest of the user's frames that runs a loop, and the innermost one there; None for
    none.
    """
    while frame is not None:
        found = innermost(source_of(frame)[0], frame.f_lineno) if in_script(frame) else None
        if found is not None:
            return frame, found
        frame = frame.f_back
    return None


def loops_around(tree: ast.AST, line: int) -> list[ast.For | ast.While]:
    """The loops around a line, from the outermost on, inside of the innermost function."""
    found: list[ast.For | ast.While] = []
    node: ast.AST | None = tree
    while node is not None:
        if isinstance(node, SCOPES):
            found.clear()
        if isinstance(node, (ast.For, ast.While)):
            found.append(node)
        node = next((each for each in ast.iter_child_nodes(node) if holds(each, line)), None)
    return found


def holds(node: ast.AST, line: int) -> bool:
    """Whether a line is one of a node's."""
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is not None and last is not None and first <= line <= last


def function_of(frame: FrameType, tree: ast.AST) -> ast.AST:
    """The definition that a frame runs, in the tree of its file; the file where it is not found."""
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS) and holds(node, frame.f_lineno) and code_line(node) == frame.f_code.co_firstlineno:
            return node
    return tree


LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await)  # by which a step can be left
FIXED = (*LEAVES, ast.Global, ast.Nonlocal)  # what means something else in a function of its own


def reached(body: Sequence[ast.AST], names: Mapping[str, Any]) -> set[str]:
    """Names that are read, by the statements or by plain functions that these name, and those that
    they name.
    """
    found, todo = read_names(body), list(read_names(body))
    while todo:
        function = names.get(todo.pop())
        if isinstance(function, FunctionType):
            new = {name for code in codes(function.__code__) for name in (*code.co_names, *code.co_freevars)} - found
            found |= new
            todo += new
    return found


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of all functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def meant(node: ast.AST, names: Mapping[str, Any]) -> Any:
    """What a name, or an attribute of one, stands for; None where that cannot be told."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = meant(node.value, names)
        try:
            return getattr(owner, node.attr, None) if owner is not None else None
        except Exception:  # a property of the user's
            return None
    return None


def called_objects(statement: ast.AST, names: Mapping[str, Any]) -> Iterator[Any]:
    """What a statement calls, as far as that can be told."""
    return (meant(call.func, names) for call in iter_calls(statement))


def counts_one(statement: ast.stmt) -> bool:
    """Whether a statement is `step += 1`."""
    return (
        isinstance(statement, ast.AugAssign)
        and isinstance(statement.op, ast.Add)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value == 1
    )


def arguments_before(
    statement: ast.stmt,
    call: ast.Call,
    function: Any,
    names: Mapping[str, Any],
    loop: ast.For,
    wanted: Callable[[ast.expr], bool],
) -> list[ast.stmt]:
    """Statements that make those arguments of a call that are `wanted`, for which names stand in it
    then.
    """
    places: list[tuple[Any, str]] = [(arg, name) for arg, name in zip(call.args, _parameters(function), strict=False)]
    places += [(word.value, word.arg) for word in call.keywords if word.arg is not None]
    if any(isinstance(arg, ast.Starred) for arg in call.args) or len(places) < len(call.args) + len(call.keywords):
        return []
    taken = {*names, *used_names(ast.walk(loop))}
    made: dict[str, ast.expr] = {}
    for value, said in places:
        if wanted(value):
            name = unused_name(said, taken)
            taken.add(name)
            made[name] = value
    stands = {id(value): ast.copy_location(ast.Name(name, ast.Load()), value) for name, value in made.items()}
    call.args = [stands.get(id(arg), arg) for arg in call.args]
    for word in call.keywords:
        word.value = stands.get(id(word.value), word.value)
    before: list[ast.stmt] = [
        ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), statement) for name, value in made.items()
    ]
    for each in (*before, statement) if made else ():
        ast.fix_missing_locations(each)
        setattr(each, SAID, ast.unparse(each))
    return before


def _parameters(function: Any) -> list[str]:
    """Names of a function's arguments by place."""
    try:
        return list(
            inspect.signature(getattr(function, "python_function", getattr(function, "python", None) or function)).parameters
        )
    except (TypeError, ValueError):
        return []


def leaves(statement: ast.AST) -> bool:
    """Whether the loop may be left by a statement."""
    return any(
        isinstance(each, (*FIXED, ast.Raise)) or (isinstance(each, ast.Call) and ast.unparse(each.func) in _EXITS)
        for each in ast.walk(statement)
    )

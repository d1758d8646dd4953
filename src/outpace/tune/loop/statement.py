"""The loop in the user's source that makes the training steps, found in the stack; and the names
that statements read and assign.
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
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
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
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or not holds(node, frame.f_lineno):
            continue
        if min([node.lineno, *(each.lineno for each in node.decorator_list)]) == frame.f_code.co_firstlineno:
            return node
    return tree


LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await)  # by which a step can be left
FIXED = (*LEAVES, ast.Global, ast.Nonlocal)  # what means something else in a function of its own
_INNER = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def order(body: Sequence[ast.AST]) -> tuple[list[str], list[str]]:
    """Names that are read before they are assigned, and those that are assigned, in order."""
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for statement in body:
        for name, stored in _names(statement):
            if stored:
                writes[name] = None
            elif name not in writes:
                reads[name] = None
    return list(reads), list(writes)


def read(body: Sequence[ast.AST]) -> set[str]:
    """Names that are read."""
    return {name for statement in body for name, stored in _names(statement) if not stored}


def reached(body: Sequence[ast.AST], names: Mapping[str, Any]) -> set[str]:
    """Names that are read, by the statements or by plain functions that these name, and those that
    they name.
    """
    found, todo = read(body), list(read(body))
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


def assigned(body: Sequence[ast.AST]) -> list[str]:
    """Names that are assigned, in order."""
    return order(body)[1]


def read_outside(node: ast.AST, first: int, last: int) -> Iterator[str]:
    """Names that are read, but between two lines, and those of functions that are their own."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not first <= node.lineno <= last:
        yield node.id
    own: set[str] = set()
    around = first <= getattr(node, "end_lineno", 0) and getattr(node, "lineno", 0) <= first
    if isinstance(node, _FUNCTIONS) and not around:
        own = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        own |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    for child in ast.iter_child_nodes(node):
        yield from (name for name in read_outside(child, first, last) if name not in own)


def _names(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Names in the order in which they are evaluated, about; whether they are assigned."""
    if isinstance(node, ast.Name):
        yield node.id, isinstance(node.ctx, (ast.Store, ast.Del))
        return
    if isinstance(node, (*_INNER, *_FUNCTIONS)):
        inner = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        inner |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        yield from ((each.id, False) for each in ast.walk(node) if isinstance(each, ast.Name) and each.id not in inner)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, True
        return
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, False
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For)):
        value = node.iter if isinstance(node, ast.For) else node.value
        children.sort(key=lambda child: child is not value)
    for child in children:
        yield from _names(child)


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


def counts_one(statement: ast.stmt) -> bool:
    """Whether a statement is `step += 1`."""
    return (
        isinstance(statement, ast.AugAssign)
        and isinstance(statement.op, ast.Add)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value == 1
    )


def stores(statements: Sequence[ast.AST]) -> list[str]:
    """Names and attributes that are assigned, as often as they are."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return [ast.unparse(node) for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)]


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
    taken = {*names, *(each.id for each in ast.walk(loop) if isinstance(each, ast.Name))}
    made: dict[str, ast.expr] = {}
    for value, said in places:
        if wanted(value):
            name = next(each for each in (said, *(f"{said}_{at}" for at in range(2, 100))) if each not in taken)
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

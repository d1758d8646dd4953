# SPDX-License-Identifier: Apache-2.0
"""A step that is made of the loop's own statements: the function that a person would write of them,
to put them into a graph.
"""

from __future__ import annotations

import ast
import copy
import linecache
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.pyscope.names import assigned_names, read_names, read_names_outside, required_names, unused_name, used_names
from outpace.pyscope.nodes import SCOPES, contains, is_stored, iter_calls
from outpace.tune.loop.body import GRADIENTS, carries, differentiates
from outpace.tune.loop.jax_calls import COMPILED, GRADIENT, JaxFunction
from outpace.tune.loop.statement import (
    FIXED,
    Statement,
    called_objects,
    function_of,
    holds,
    in_script,
    loop_at,
    loop_of,
    source_of,
)
from outpace.tune.loop.step import Outline, Step, users_frame
from outpace.tune.texts.indentation import dedent_code, indent_code

if TYPE_CHECKING:
    from types import FrameType

TAPE = "GradientTape"
_FILLING = ("append", "extend")
_APPLIES = frozenset({"apply_gradients", "apply", "assign_sub", "minimize"})  # methods that change weights


def outlined(statement: Statement, frame: FrameType | None = None, *, jax: bool = False) -> Outline | None:
    """The statements of a loop that take gradients and apply them, or those of a loop in a function
    that it calls, which `frame` is inside of; None where there are none. `jax`: they train with
    JAX, else with TensorFlow.
    """
    span = _jax_span if jax else _span
    found = _outlined(statement, span)
    while found is None and frame is not None and frame is not statement.frame:
        inner = loop_at(frame) if in_script(frame) else None
        if inner is not None:
            return _in_function(Statement(frame.f_code.co_filename, inner.lineno, frame, inner), span)
        frame = frame.f_back
    return found


def _outlined(statement: Statement, span: Span, aside: ast.AST | None = None) -> Outline | None:
    """`aside`: the definition of the function that the statement stands in, from whose names the
    outline shall be free.
    """
    names = {**statement.frame.f_globals, **statement.frame.f_locals}
    for body in _bodies(statement.node, statement.frame.f_lineno):
        found = span(body, names, _around(statement.node, body))
        if found is not None:
            return _made(statement, found, aside)
    return None


def _around(loop: ast.For | ast.While, body: Sequence[ast.stmt]) -> set[str]:
    """Names that a loop assigns around the body of the loop in it whose body this is."""
    loops = [each for each in ast.walk(loop) if isinstance(each, (ast.For, ast.While))]
    inner = next((each for each in reversed(loops) if contains(each, body[0])), None)
    own = assigned_names([inner]) if inner is not None else []
    return set(assigned_names([loop])) - set(own)


def _in_function(statement: Statement, span: Span) -> Outline | None:
    """Of a loop in a function that is called again and again."""
    frame = statement.frame
    caller = users_frame(frame.f_back)
    tree, _ = source_of(frame)
    definition = function_of(frame, tree)
    node = loop_of(tree, statement.line)
    if caller is None or Step.of(frame, caller) is None or definition is tree or node is None:
        return None
    return _outlined(Statement(statement.file, statement.line, frame, node), span, definition)


def _bodies(node: ast.AST, line: int) -> Iterator[list[ast.stmt]]:
    """The bodies of a loop, and of loops in it, the innermost first; not those of functions. Of a
    condition the branch that runs now, at that line: another one may never run.
    """
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            yield from _bodies(child, line)
    if isinstance(node, (ast.For, ast.While)):
        yield node.body
    if isinstance(node, ast.If):
        yield from (branch for branch in (node.body, node.orelse) if any(holds(each, line) for each in branch))


@dataclass(frozen=True)
class Parted:
    """Statements in their order, so many: those of a step, and those among them that only look at
    what it has made, and may follow it.
    """

    count: int
    step: Sequence[ast.stmt]
    looks: Sequence[ast.stmt]

    @classmethod
    def of(cls, between: Sequence[ast.stmt], own: Callable[[ast.stmt], bool]) -> Parted | None:
        """own: whether a statement that assigns no name is of the step all the same. None where one
        that looks sees other names behind the step than where it stands, or may leave the loop.
        """
        looks = [*_looks(between, own)]
        step = [each for each in map(_Without(looks).visit, between) if each is not None]
        stored = [each for statement in step for each in ast.walk(statement) if is_stored(each)]
        for each in looks:
            later = {node.id for node in stored if isinstance(node, ast.Name) and node.lineno > each.lineno}
            if read_names([each]) & later or any(isinstance(node, FIXED) for node in ast.walk(each)):
                return None
        empty = any(isinstance(node, ast.With) and not node.body for statement in step for node in ast.walk(statement))
        return None if empty or not step or step[0].lineno != between[0].lineno else cls(len(between), step, looks)


def _looks(statements: Sequence[ast.stmt], own: Callable[[ast.stmt], bool]) -> Iterator[ast.stmt]:
    for each in statements:
        if isinstance(each, ast.With):
            yield from _looks(each.body, own)
        elif not assigned_names([each]) and not own(each):
            yield each


class _Without(ast.NodeTransformer):
    """Copies statements, and leaves some out."""

    def __init__(self, left: Sequence[ast.stmt]) -> None:
        self.left = left

    def visit(self, node: ast.AST) -> Any:
        """The statements stay as they are."""
        return None if node in self.left else super().visit(copy.copy(node))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Of a block the list is another."""
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, list(value))
        return super().generic_visit(node)


Span = Callable[[Sequence[ast.stmt], Mapping[str, Any], "set[str]"], "Parted | None"]


def _span(body: Sequence[ast.stmt], names: Mapping[str, Any], changing: set[str]) -> Parted | None:
    """From the first statement that takes gradients to the last one that applies them, or updates a
    metric right behind it. None where they need numbers of the loops around. `changing`: names that
    these assign. A graph is built anew for each object, and each number, that it is given.
    """
    first = next((at for at, each in enumerate(body) if _tapes(each, names)), None)
    if first is None:
        return None
    last = max((at for at in range(first, len(body)) if _applies(body[at])), default=None)
    while last is not None and last + 1 < len(body) and _counts(body[last + 1], changing):
        last += 1
    parted = Parted.of(body[first : last + 1], _changes) if last is not None else None
    if parted is None or any(name in changing and _number(names.get(name)) for name in required_names(parted.step)):
        return None
    return None if any(isinstance(each, FIXED) for statement in parted.step for each in ast.walk(statement)) else parted


def takes_gradients(function: Any) -> bool:
    """Whether something is a plain function of Python that takes gradients by a tape of its own."""
    return isinstance(function, types.FunctionType) and TAPE in function.__code__.co_names


def _tapes(statement: ast.stmt, names: Mapping[str, Any]) -> bool:
    """Whether a statement takes gradients: by a tape of its own, or in a plain function of the
    user's that it calls.
    """
    for call in iter_calls(statement):
        target = names.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if ast.unparse(call.func).endswith(TAPE) or takes_gradients(target):
            return True
    return False


def _applies(statement: ast.stmt) -> bool:
    return bool(_methods(statement) & _APPLIES)


def _changes(statement: ast.stmt) -> bool:
    """Whether a statement calls a method that changes weights, variables or metrics."""
    return _applies(statement) or any(each.startswith(("assign", "update_state")) for each in _methods(statement))


def _methods(statement: ast.stmt) -> set[str]:
    """The names of the methods that a statement calls."""
    return {call.func.attr for call in iter_calls(statement) if isinstance(call.func, ast.Attribute)}


def _counts(statement: ast.stmt, changing: set[str]) -> bool:
    """Whether a statement updates a metric that the loop does not make anew:
    `accuracy.update_state(labels, logits)`.
    """
    func = statement.value.func if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "update_state" and not read_names([func.value]) & changing


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_BEYOND = (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await)  # what a function does beside returning


def _jax_span(body: Sequence[ast.stmt], names: Mapping[str, Any], changing: set[str]) -> Parted | None:
    """From the statement that takes gradients, or from what makes the arrays before it that a step
    leaves to the next one, to the last one that assigns such. None where one of them does more than
    assign names, and where compiled functions make all of the step, or one function of the user's.
    """
    first = next((at for at, each in enumerate(body) if _differentiates(each, names)), None)
    if first is None:
        return None
    last = max((at for at in range(first, len(body)) if carries(body[at], body[first : at + 1], names)), default=first - 1)
    parted = Parted.of(body[first : last + 1], _never)
    inside = parted.step if parted is not None else ()
    if not inside or not _only_assign(inside):
        return None
    by_functions = carries(inside[0], inside[:1], names) or not any(_eager(each, names) for each in inside)
    if by_functions and not _inline(inside[0], names):
        return None
    parted = Parted.of(body[_begin(body, first, last, names) : last + 1], _never)
    return parted if parted is not None and _only_assign(parted.step) else None


def _never(statement: ast.stmt) -> bool:
    return False


def _begin(body: Sequence[ast.stmt], first: int, last: int, names: Mapping[str, Any]) -> int:
    """Where a step begins whose gradients are taken by the first statement: with the functions that
    it defines for that, and the arrays that it carries on right before.
    """
    while True:
        needed = required_names(body[first : last + 1])
        earliest = min((at for at in range(first) if _functions([body[at]], names) & set(needed)), default=first)
        if (
            earliest == first
            and first
            and _only_assign([body[first - 1]])
            and carries(body[first - 1], body[first - 1 : last + 1], names)
        ):
            earliest = first - 1
        if earliest == first:
            return first
        first = earliest


def _functions(statements: Sequence[ast.stmt], names: Mapping[str, Any]) -> set[str]:
    """Names that statements give to functions."""
    return {name for name in assigned_names(statements) if isinstance(names.get(name), types.FunctionType)}


def _only_assign(statements: Sequence[ast.stmt], made: Collection[str] = ()) -> bool:
    """Whether statements assign names, and fill lists that they have made, in loops, too, and do
    nothing else. made: names that were assigned before them.
    """
    names = set(made)
    for each in statements:
        if isinstance(each, ast.For):
            inside = names | set(assigned_names([each]))
            if each.orelse or any(isinstance(node, FIXED) for node in ast.walk(each)) or not _only_assign(each.body, inside):
                return False
        elif not (_assigns(each) or _fills(each, names)):
            return False
        names |= set(assigned_names([each]))
    return True


def _fills(statement: ast.stmt, made: Collection[str]) -> bool:
    """Whether a statement adds to a list under one of these names."""
    func = statement.value.func if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None
    return (
        isinstance(func, ast.Attribute) and func.attr in _FILLING and isinstance(func.value, ast.Name) and func.value.id in made
    )


def _assigns(statement: ast.stmt) -> bool:
    """Whether a statement assigns names, or defines a function, and does nothing else."""
    if isinstance(statement, ast.FunctionDef):
        return not any(isinstance(each, _BEYOND) for each in ast.walk(statement))
    nodes = list(ast.walk(statement))
    return (
        isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign))
        and all(isinstance(each, (ast.Name, ast.Tuple, ast.List, ast.Starred)) for each in filter(is_stored, nodes))
        and not any(isinstance(each, FIXED) for each in nodes)
    )


def _differentiates(statement: ast.stmt, names: Mapping[str, Any]) -> bool:
    """Whether a statement takes gradients, itself or in a function that it calls."""
    if isinstance(statement, ast.FunctionDef):
        return False
    if _inline(statement, names):
        return True
    for function in called_objects(statement, names):
        python = function.python if isinstance(function, JaxFunction) else function
        if isinstance(python, JaxFunction) and python.kind == GRADIENT:
            return True
        if differentiates(python):
            return True
    return False


def _inline(statement: ast.stmt, names: Mapping[str, Any]) -> bool:
    """Whether a statement takes gradients itself: `jax.grad(loss)(weights)`, or a name for
    `jax.grad(loss)`.
    """
    made = (call.func for call in iter_calls(statement) if isinstance(call.func, ast.Call))
    return any(ast.unparse(each.func).rpartition(".")[2] in GRADIENTS for each in made) or any(
        isinstance(function, JaxFunction) and function.kind == GRADIENT for function in called_objects(statement, names)
    )


def _eager(statement: ast.stmt, names: Mapping[str, Any]) -> bool:
    """Whether a statement computes outside of compiled functions."""
    called = list(called_objects(statement, names))
    return not called or any(not isinstance(each, JaxFunction) or each.kind != COMPILED for each in called)


def _made(statement: Statement, parted: Parted, aside: ast.AST | None) -> Outline | None:
    """The function; None where the file is not the one that runs."""
    body = parted.step
    first, last = body[0].lineno, body[-1].end_lineno or body[-1].lineno
    tree, lines = source_of(statement.frame)
    whole = loop_of(tree, statement.line)
    if whole is None:
        return None
    stored = set(assigned_names([whole]))
    if aside is not None:
        stored |= {
            *statement.frame.f_code.co_varnames,
            *statement.frame.f_code.co_cellvars,
            *statement.frame.f_code.co_freevars,
        }
    given = tuple(name for name in required_names(body) if name in stored)
    elsewhere = set(read_names_outside(aside or tree, first, last)) | read_names(parted.looks)
    returned = tuple(name for name in assigned_names(body) if name in elsewhere or name in given)
    defined = {each.name for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.ClassDef))}
    name = unused_name("train_step", {*used_names(ast.walk(tree)), *defined})
    text = f"def {name}({', '.join(given)}):\n"
    own = (line for at, line in enumerate(lines[first - 1 : last], first) if not any(holds(each, at) for each in parted.looks))
    text += indent_code(dedent_code("".join(own)).rstrip() + "\n", "    ")
    text += f"    return {', '.join(returned)}\n" if returned else ""
    return Outline(
        statement.file,
        first,
        last,
        parted.count,
        tuple(each.lineno for each in parted.looks),
        statement.line,
        name,
        given,
        returned,
        text,
        _compiled(text, name, statement.frame, aside is not None),
        aside is not None,
    )


def _compiled(text: str, name: str, frame: types.FrameType, aside: bool) -> types.FunctionType:
    """The function of a text, which sees what the frame sees, or (`aside`) only its file; its
    source is at hand for who asks.
    """
    file = f"{frame.f_code.co_filename}#{name}"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    inside = frame.f_code.co_name != "<module>" and not aside
    names = {**frame.f_globals, **frame.f_locals} if inside else frame.f_globals
    before = names.get(name)
    exec(compile(text, file, "exec", dont_inherit=True), names)
    made: types.FunctionType = names.pop(name)
    if before is not None:
        names[name] = before
    return made

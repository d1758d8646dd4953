"""The function that makes a step and runs eagerly: the user's, found where a gradient tape is used, and called through a switch since; or
made of the loop's own statements, as a person would write it to put them into a graph."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from types import CodeType, FrameType
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture import frames
from outpace.tune.loop.names import FIXED, order, read_outside
from outpace.tune.loop.statement import Statement, function_of, holds, in_script, loop_at, loop_of, source_of
from outpace.tune.purity.text import codes


@dataclass(eq=False)
class Step:
    """A function that the loop calls in each step. owner: the class that it is a method of; None for a plain function. holder: the names that
    hold it then."""

    name: str
    function: types.FunctionType
    owner: type | None
    holder: MutableMapping[str, Any] | None
    outline: Outline | None = None  # the loop's own statements, which it was made of

    @classmethod
    def of(cls, frame: FrameType, caller: FrameType) -> Step | None:
        """The function that a frame runs, which another one called; None where nothing holds it by a name."""
        code, receiver = frame.f_code, next(iter(frame.f_locals.values()), None)
        for kind in type(receiver).__mro__ if receiver is not None else ():
            found = vars(kind).get(code.co_name)
            if inspect.isfunction(found) and found.__code__ is code:
                return cls(code.co_name, found, kind, None)
        for holder in (caller.f_locals, caller.f_globals, frame.f_globals):
            for name, value in list(holder.items()):
                if inspect.isfunction(value) and value.__code__ is code:
                    return cls(name, value, None, holder)
        return None

    @classmethod
    def in_loop(cls, frame: FrameType | None) -> Step | None:
        """The function that the innermost loop around a frame calls there; None where the loop makes the step itself."""
        inner = None
        while frame is not None:
            if in_script(frame):
                if loop_at(frame) is not None:
                    return cls.of(inner, frame) if inner is not None else None
                inner = frame
            frame = frame.f_back
        return None

    @property
    def place(self) -> str:
        """`train.py:12 train_step`, or of an outline the lines."""
        if self.outline is not None:
            return f"{os.path.basename(self.outline.file)}:{self.outline.first} to {self.outline.last}"
        code: CodeType = self.function.__code__
        return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno} {code.co_name}"

    def replace(self, switch: Callable[..., Any]) -> None:
        """Let the function's name mean another one."""
        if self.owner is not None:
            setattr(self.owner, self.function.__name__, switch)
        elif self.holder is not None:
            self.holder[self.name] = switch


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The nearest frame of the user's own code."""
    while frame is not None and not frames.users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def called_by(frame: FrameType | None, loop: CodeType) -> tuple[FrameType, FrameType] | None:
    """Of the calls that lead to a frame: the user's frame right inside of the one that runs the loop, and that one. None where the frame is
    the loop's own, or not inside of it."""
    inner = users_frame(frame)
    while inner is not None:
        outer = users_frame(inner.f_back)
        if outer is not None and outer.f_code is loop:
            return (inner, outer) if inner.f_code is not loop else None
        inner = outer
    return None


TAPE = "GradientTape"
_APPLIES = frozenset({"apply_gradients", "apply", "assign_sub", "minimize"})  # methods that change weights
ON, STEP = "_outpace_on", "_outpace_step"  # names that the loop gets


@dataclass(frozen=True, eq=False)
class Outline:
    """Statements (so many) from line `first` to `last` of a file, which become a function: before their loop, or (`aside`) at the top of the
    file, where a function that the loop calls has them. given, returned: the names that it needs and gives. text: its definition, without a
    decorator. function: made of it. names: the globals of who calls it."""

    file: str
    first: int
    last: int
    statements: int
    loop_line: int
    name: str
    given: tuple[str, ...]
    returned: tuple[str, ...]
    text: str
    function: types.FunctionType
    names: MutableMapping[str, Any]
    aside: bool = False

    @property
    def call(self) -> str:
        """The statement that stands in their place."""
        call = f"{self.name}({', '.join(self.given)})"
        return f"{', '.join(self.returned)} = {call}" if self.returned else call


def outlined(statement: Statement, frame: FrameType | None = None) -> Outline | None:
    """The statements of a loop that take gradients by a tape and apply them, or those of a loop in a function that it calls, which `frame` is
    inside of; None where there are none.

    The loop, or that function, is changed: where `_outpace_on()` says so it calls `_outpace_step` in their place.
    """
    found = _outlined(statement)
    while found is None and frame is not None and frame is not statement.frame:
        inner = loop_at(frame) if in_script(frame) else None
        if inner is not None:
            return _in_function(Statement(frame.f_code.co_filename, inner.lineno, frame, inner))
        frame = frame.f_back
    return found


def _outlined(statement: Statement, aside: ast.AST | None = None) -> Outline | None:
    """`aside`: the definition of the function that the statement stands in, from whose names the outline shall be free."""
    for body in _bodies(statement.node, statement.frame.f_lineno):
        found = _span(body, statement.frame.f_globals)
        if found is not None:
            first, last = found
            made = _made(statement, body[first : last + 1], aside)
            if made is not None:
                body[first : last + 1] = [_choice(made, body[first : last + 1])]
            return made
    return None


def _in_function(statement: Statement) -> Outline | None:
    """Of a loop in a function that is called again and again, and runs what is changed from its next call on."""
    frame = statement.frame
    caller = users_frame(frame.f_back)
    held = Step.of(frame, caller) if caller is not None else None
    tree, _ = source_of(frame)
    definition = function_of(frame, tree)
    node = loop_of(tree, statement.line)
    if held is None or definition is tree or node is None:
        return None
    made = _outlined(Statement(statement.file, statement.line, frame, node), definition)
    if made is None:
        return None
    whole = compile(ast.fix_missing_locations(tree), statement.file, "exec", dont_inherit=True)
    code = next((each for each in codes(whole) if _same(each, frame.f_code)), None)
    if code is None:
        return None
    held.function.__code__ = code
    return made


def _same(new: CodeType, old: CodeType) -> bool:
    """Whether one is of the same definition as the other, and can stand for it."""
    return (new.co_name, new.co_firstlineno, new.co_freevars) == (old.co_name, old.co_firstlineno, old.co_freevars)


def _bodies(node: ast.AST, line: int) -> Iterator[list[ast.stmt]]:
    """The bodies of a loop, and of loops in it, the innermost first; not those of functions. Of a condition the branch that runs now, at that
    line: another one may never run."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield from _bodies(child, line)
    if isinstance(node, (ast.For, ast.While)):
        yield node.body
    if isinstance(node, ast.If):
        yield from (branch for branch in (node.body, node.orelse) if any(holds(each, line) for each in branch))


def _span(body: Sequence[ast.stmt], names: Mapping[str, Any]) -> tuple[int, int] | None:
    """The first statement that takes gradients, and the last one that applies them, or updates a metric right behind it."""
    first = next((at for at, each in enumerate(body) if _tapes(each, names)), None)
    if first is None:
        return None
    last = max((at for at in range(first, len(body)) if _applies(body[at])), default=None)
    while last is not None and last + 1 < len(body) and _counts(body[last + 1]):
        last += 1
    inside = [each for statement in body[first : (last or 0) + 1] for each in ast.walk(statement)]
    return None if last is None or any(isinstance(each, FIXED) for each in inside) else (first, last)


def _tapes(statement: ast.stmt, names: Mapping[str, Any]) -> bool:
    """Whether a statement takes gradients: by a tape of its own, or in a plain function of the user's that it calls."""
    for each in ast.walk(statement):
        if isinstance(each, ast.Call):
            if ast.unparse(each.func).endswith(TAPE):
                return True
            target = names.get(each.func.id) if isinstance(each.func, ast.Name) else None
            if isinstance(target, types.FunctionType) and TAPE in target.__code__.co_names:
                return True
    return False


def _applies(statement: ast.stmt) -> bool:
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _APPLIES
        for each in ast.walk(statement)
    )


def _counts(statement: ast.stmt) -> bool:
    """Whether a statement updates a metric: `accuracy.update_state(labels, logits)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "update_state"


def _made(statement: Statement, body: Sequence[ast.stmt], aside: ast.AST | None) -> Outline | None:
    """The function; None where the file is not the one that runs."""
    first, last = body[0].lineno, body[-1].end_lineno or body[-1].lineno
    tree, lines = source_of(statement.frame)
    whole = loop_of(tree, statement.line)
    if whole is None:
        return None
    stored = {each.id for each in ast.walk(whole) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    reads, writes = order(body)
    if aside is not None:
        stored |= {
            *statement.frame.f_code.co_varnames,
            *statement.frame.f_code.co_cellvars,
            *statement.frame.f_code.co_freevars,
        }
    given = tuple(name for name in reads if name in stored)
    elsewhere = set(read_outside(aside or tree, first, last))
    returned = tuple(name for name in writes if name in elsewhere or name in given)
    used = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)} | {
        each.name for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.ClassDef))
    }
    name = next(each for each in ("train_step", *(f"train_step_{at}" for at in range(2, 100))) if each not in used)
    text = f"def {name}({', '.join(given)}):\n"
    text += textwrap.indent(textwrap.dedent("".join(lines[first - 1 : last])).rstrip() + "\n", "    ")
    text += f"    return {', '.join(returned)}\n" if returned else ""
    return Outline(
        statement.file,
        first,
        last,
        len(body),
        statement.line,
        name,
        given,
        returned,
        text,
        _compiled(text, name, statement.frame, aside is not None),
        statement.frame.f_globals,
        aside is not None,
    )


def _compiled(text: str, name: str, frame: types.FrameType, aside: bool) -> types.FunctionType:
    """The function of a text, which sees what the frame sees, or (`aside`) only its file; its source is at hand for who asks."""
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


def _choice(made: Outline, body: Sequence[ast.stmt]) -> ast.stmt:
    """`if _outpace_on(): a, b = _outpace_step(x, y)`, else the statements."""
    call = ast.parse(made.call.replace(f"{made.name}(", f"{STEP}(", 1)).body
    choice = ast.If(ast.parse(f"{ON}()", mode="eval").body, call, list(body))
    for node in (choice, *ast.walk(choice.test), *(each for statement in call for each in ast.walk(statement))):
        ast.copy_location(node, body[0])
    return choice

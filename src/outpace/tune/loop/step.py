# SPDX-License-Identifier: Apache-2.0
"""The function that makes a step and runs eagerly: the user's, found where gradients are taken."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import sys
import types
from collections.abc import Sequence
from types import CodeType, FrameType

from outpace._dataclass import dataclass
from outpace.capture import frames
from outpace.tune.loop.statement import in_script, loop_at
from outpace.tune.texts.indentation import dedent_code, indent_code
from outpace.tune.texts.parsed import parsed


@dataclass(frozen=True, eq=False)
class Outline:
    """Statements (so many) from line `first` to `last` of a file, which become a function: before
    their loop, or (`aside`) at the top of the file, where a function that the loop calls has them.
    looks: lines of those in between that follow the call. given, returned: the names that it needs
    and gives. text: its definition, without a decorator. function: made of it.
    """

    file: str
    first: int
    last: int
    statements: int
    looks: tuple[int, ...]
    loop_line: int
    name: str
    given: tuple[str, ...]
    returned: tuple[str, ...]
    text: str
    function: types.FunctionType
    aside: bool = False

    @property
    def call(self) -> str:
        """The statement that stands in their place."""
        call = f"{self.name}({', '.join(self.given)})"
        return f"{', '.join(self.returned)} = {call}" if self.returned else call


@dataclass(eq=False)
class Step:
    """A function that the loop calls in each step. owner: the class that it is a method of; None
    for a plain function.
    """

    name: str
    function: types.FunctionType
    owner: type | None
    outline: Outline | None = None  # the loop's own statements, which it was made of

    @functools.cached_property
    def peeled(self) -> Peeled | None:
        """The function without the values that its `return` reads; None where that reads none, or
        another place may.
        """
        return Peeled.of(self.function) if self.outline is None else None

    @property
    def traced(self) -> types.FunctionType:
        """What a graph is made of."""
        return self.function if self.peeled is None else self.peeled.function

    @classmethod
    def of(cls, frame: FrameType, caller: FrameType) -> Step | None:
        """The function that a frame runs, which another one called; None where nothing holds it by
        a name.
        """
        code, receiver = frame.f_code, next(iter(frame.f_locals.values()), None)
        for kind in type(receiver).__mro__ if receiver is not None else ():
            found = vars(kind).get(code.co_name)
            if inspect.isfunction(found) and found.__code__ is code:
                return cls(code.co_name, found, kind)
        for holder in (caller.f_locals, caller.f_globals, frame.f_globals):
            for name, value in list(holder.items()):
                if inspect.isfunction(value) and value.__code__ is code:
                    return cls(name, value, None)
        return None

    @classmethod
    def in_loop(cls, frame: FrameType | None) -> Step | None:
        """The function that the innermost loop around a frame calls there; None where the loop
        makes the step itself.
        """
        inner = None
        while frame is not None:
            if in_script(frame):
                if loop_at(frame) is not None:
                    return cls.of(inner, frame) if inner is not None else None
                inner = frame
            frame = frame.f_back
        return None

    def given(self, frame: FrameType) -> Sequence[str] | None:
        """The names of what it is given in a frame that runs it, or its statements; None for
        another frame.
        """
        out, code = self.outline, frame.f_code
        if out is not None:
            return out.given if code.co_filename == out.file and out.first <= frame.f_lineno <= out.last else None
        return code.co_varnames[: code.co_argcount] if code is self.function.__code__ else None

    @property
    def place(self) -> str:
        """`train.py:12 train_step`, or of an outline the lines."""
        if self.outline is not None:
            return f"{os.path.basename(self.outline.file)}:{self.outline.first} to {self.outline.last}"
        code: CodeType = self.function.__code__
        return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno} {code.co_name}"


@dataclass(frozen=True, eq=False)
class Peeled:
    """A function whose `return` gives tensors for the values that another one's reads of them.
    reads: by place in what it returns, how the other one reads the value: as `{}.numpy()` or
    `float({})`, or (`{}`) not; single: it returns one thing, and no tuple.
    """

    function: types.FunctionType
    definition: ast.FunctionDef
    reads: tuple[str, ...]
    single: bool

    @classmethod
    def of(cls, function: types.FunctionType) -> Peeled | None:
        """None where the function's last statement is not its one `return`, or reads no values."""
        try:
            node = parsed(dedent_code(inspect.getsource(function))).body[0]
        except (OSError, TypeError, SyntaxError, IndexError):
            return None
        last = node.body[-1] if isinstance(node, ast.FunctionDef) and not node.decorator_list else None
        returns = [each for each in ast.walk(node) if isinstance(each, (ast.Return, ast.Yield, ast.YieldFrom))]
        if not isinstance(node, ast.FunctionDef) or not isinstance(last, ast.Return) or last.value is None or returns != [last]:
            return None
        parts = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        found = [_read(part) for part in parts]
        reads = tuple(how for _, how in found)
        if set(reads) == {"{}"} or "__class__" in function.__code__.co_freevars or node.args.vararg or node.args.kwarg:
            return None
        tensors = [tensor for tensor, _ in found]
        last.value = ast.Tuple(tensors, ast.Load()) if isinstance(last.value, ast.Tuple) else tensors[0]
        return cls(_made(node, function), node, reads, not isinstance(last.value, ast.Tuple))

    def wrapper(self, name: str) -> str:
        """The source of the other function, which calls this one by a name."""
        function = ast.FunctionDef(self.definition.name, self.definition.args, [ast.Pass()], [])
        arguments = [each.arg for each in (*self.definition.args.posonlyargs, *self.definition.args.args)]
        call = f"{arguments.pop(0)}.{name}" if self.method else name
        call += f"({', '.join([*arguments, *(f'{each.arg}={each.arg}' for each in self.definition.args.kwonlyargs)])})"
        if self.single:
            text = f"return {self.reads[0].format(call)}"
        else:
            names = [f"result_{at}" for at in range(1, len(self.reads) + 1)]
            values = ", ".join(how.format(each) for how, each in zip(self.reads, names, strict=True))
            text = f"{', '.join(names)} = {call}\n    return {values}"
        if sys.version_info >= (3, 12):
            function.type_params = []
        head = ast.unparse(ast.fix_missing_locations(function)).removesuffix("pass").rstrip()
        return f"{head}\n    {text}\n"

    @property
    def method(self) -> bool:
        """Whether it is a method."""
        return "." in self.function.__qualname__.rpartition("<locals>.")[2]


def _read(node: ast.expr) -> tuple[ast.expr, str]:
    """What an expression reads the value of, and how; itself where it reads none."""
    if isinstance(node, ast.Call) and not node.keywords:
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("numpy", "item") and not node.args:
            return node.func.value, f"{{}}.{node.func.attr}()"
        if isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1:
            inner, how = _read(node.args[0])
            return (inner, "float({})") if how in ("{}", "{}.numpy()", "{}.item()") else (node.args[0], "float({})")
    return node, "{}"


def _made(node: ast.FunctionDef, like: types.FunctionType) -> types.FunctionType:
    """A function of a definition that sees what another one sees; its source is at hand for who
    asks.
    """
    file, free = f"{like.__code__.co_filename}#{node.name}", like.__code__.co_freevars
    text = ast.unparse(ast.fix_missing_locations(node)) + "\n"
    if free:
        text = f"def around({', '.join(free)}):\n" + indent_code(text, "    ") + f"    return {node.name}\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    codes = [compile(text, file, "exec", dont_inherit=True)]
    while codes[0].co_name != node.name:
        codes = [const for each in codes for const in each.co_consts if isinstance(const, CodeType)]
    cells = dict(zip(free, like.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in codes[0].co_freevars)
    made = types.FunctionType(codes[0], like.__globals__, node.name, like.__defaults__, closure)
    made.__kwdefaults__, made.__qualname__ = like.__kwdefaults__, like.__qualname__
    return made


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The nearest frame of the user's own code."""
    while frame is not None and not frames.is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def called_by(frame: FrameType | None, loop: CodeType) -> tuple[FrameType, FrameType] | None:
    """Of the calls that lead to a frame: the user's frame right inside of the one that runs the
    loop, and that one. None where the frame is the loop's own, or not inside of it.
    """
    inner = users_frame(frame)
    while inner is not None:
        outer = users_frame(inner.f_back)
        if outer is not None and outer.f_code is loop:
            return (inner, outer) if inner.f_code is not loop else None
        inner = outer
    return None

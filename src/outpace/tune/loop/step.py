"""The function that makes a step and runs eagerly: the user's, found where gradients are taken, and called through a switch since."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, MutableMapping
from types import CodeType, FrameType
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture import frames
from outpace.tune.loop.statement import in_script, loop_at


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

"""Stacks that were met on a thread: kept cheaply while the program runs, and read once it has
ended. Standard library only.

While the program runs, a stack is the identities of its code objects with the place of the
instruction in each; lines, functions and whose code it is are worked out afterwards.
"""

from __future__ import annotations

import os
import re
import sys
from types import CodeType, FrameType

from outpace.capture.libraries import library_of
from outpace.frameworks.tensorflow import AUTOGRAPH_FILE

MAX_STACKS = 5_000
MAX_WALKED_FRAMES = 250  # frames looked at per stack
MAX_FRAMES = 60  # innermost frames kept; the user's own are kept beyond
OWN, PYTHON = "outpace", "python"
Frame = tuple[str, str, int, str]  # file, function, first line, owner
StackKey = tuple[tuple[int, int], ...]  # of a stack: number of the frame, line
_TYPED = ("<stdin>", "<ipython-input", "<cell", "<python-input")
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_COMPREHENSION = re.compile(r"(?:(?:^|\.<locals>\.)<(?:list|set|dict)comp>)+$")


class StackTable:
    """Stacks that were met on one thread of ours, by number."""

    def __init__(self) -> None:
        self._codes: dict[int, CodeType] = {}
        self._numbers: dict[tuple[int, ...], int] = {}  # innermost first: id of the code, instruction offset, ...

    def index(self, frame: FrameType | None) -> int | None:
        """Number of the stack that `frame` is the innermost of; None when there are too many."""
        key: list[int] = []
        append, at = key.append, frame
        while at is not None and len(key) < 2 * MAX_WALKED_FRAMES:
            append(id(at.f_code))  # hashing a code object would hash all that it holds
            append(at.f_lasti)
            at = at.f_back
        stack = tuple(key)
        index = self._numbers.get(stack)
        if index is None and len(self._numbers) < MAX_STACKS:
            self._keep_codes(frame)
            index = self._numbers[stack] = len(self._numbers)
        return index

    def _keep_codes(self, frame: FrameType | None) -> None:
        """Keep the code of all frames, so that no id comes to stand for another one."""
        while frame is not None:
            self._codes[id(frame.f_code)] = frame.f_code
            frame = frame.f_back

    def merge_into(self, frames: dict[Frame, int], stacks: dict[StackKey, int]) -> list[int]:
        """Put them among `frames` and `stacks`, outermost first, of a record: which of these each
        number became.
        """
        places = {number: _Place(code, frames) for number, code in self._codes.items()}
        owners = [owner for *_, owner in frames]
        found = []
        for key in self._numbers:
            walked = [(places[key[at]].index, places[key[at]].line(key[at + 1])) for at in range(0, len(key), 2)]
            kept = [place for at, place in enumerate(walked) if at < MAX_FRAMES or not owners[place[0]]]
            found.append(stacks.setdefault(tuple(reversed(kept)), len(stacks)))
        return found


class _Place:
    """A code object's place among the frames, and its lines."""

    def __init__(self, code: CodeType, frames: dict[tuple[str, str, int, str], int]) -> None:
        name = code.co_filename
        file = name if name.startswith("<") else os.path.abspath(name)
        self.index = frames.setdefault((file, _function(code), code.co_firstlineno, owner_of(file)), len(frames))
        self._lines = list(code.co_lines())
        self._first = code.co_firstlineno

    def line(self, offset: int) -> int:
        for start, end, line in self._lines:
            if start <= offset < end and line is not None:
                return line
        return self._first


def _function(code: CodeType) -> str:
    """The function whose time it is: a comprehension is a frame of its own before Python 3.12, and
    part of its function since.
    """
    if sys.version_info < (3, 11):
        return code.co_name  # which does not tell whose comprehension it is
    return _COMPREHENSION.sub("", code.co_qualname) or "<module>"


def owner_of(file: str) -> str:
    """Whose code a file holds: `""` for the user's own, `outpace`, `python` for the standard
    library, else the name of the package.
    """
    if file.startswith(_HERE):
        return OWN
    if file.startswith("<"):
        return _owner_of_text(file)
    if package := library_of(file):
        return "" if package == _main_package() else package
    if AUTOGRAPH_FILE in file:
        return "tensorflow"
    return PYTHON if file.startswith(_STDLIB) else ""


def _owner_of_text(name: str) -> str:
    """Code without a file: what is typed is the user's, what is generated (the methods of a data
    class) is nobody's line.
    """
    if name.startswith("<__array_function__"):
        return "numpy"
    return "" if name.startswith(_TYPED) else PYTHON


def _main_package() -> str:
    """The installed package that is being run as `-m PACKAGE`, which is then the user's own."""
    package = getattr(sys.modules.get("__main__"), "__package__", None)
    return package.partition(".")[0] if isinstance(package, str) and package else "/"

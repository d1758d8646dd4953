# SPDX-License-Identifier: Apache-2.0
"""Stores stacks of a thread cheaply while the program runs, and resolves them afterwards. Standard
library only.

While the program runs, a stack is stored as the ids of its code objects with the instruction offset
in each; lines, functions and whose code it is are computed afterwards.
"""

from __future__ import annotations

import os
import re
import sys
from types import CodeType, FrameType

from outpace.capture.libraries import library_of
from outpace.frameworks.tensorflow import AUTOGRAPH_FILE

MAX_STACKS = 5_000
MAX_WALKED_FRAMES = 250  # maximum number of frames that are read of a stack
MAX_FRAMES = 60  # number of innermost frames that are stored; beyond them only the user's own
OWN, PYTHON = "outpace", "python"
Frame = tuple[str, str, int, str]  # (file, function, first line, owner)
# frames of a stack, outermost first, as (index of the frame, line)
StackKey = tuple[tuple[int, int], ...]
_TYPED_CODE_PREFIXES = ("<stdin>", "<ipython-input", "<cell", "<python-input")
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB_FOLDER = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_COMPREHENSION = re.compile(r"(?:(?:^|\.<locals>\.)<(?:list|set|dict)comp>)+$")


class StackTable:
    """Distinct stacks, by number."""

    def __init__(self) -> None:
        self._codes: dict[int, CodeType] = {}
        # number of a stack by its key, innermost frame first: id of the code, instruction offset,
        # ...
        self._numbers: dict[tuple[int, ...], int] = {}

    def index(self, frame: FrameType | None) -> int | None:
        """Return the number of the stack whose innermost frame is `frame`; None when there are more
        than `MAX_STACKS`.
        """
        key: list[int] = []
        # walked once: of another thread's stack the frames may be over by a second time
        codes: list[CodeType] = []
        append, current = key.append, frame
        while current is not None and len(codes) < MAX_WALKED_FRAMES:
            code = current.f_code
            codes.append(code)
            # the id, because hashing a code object would hash all its contents
            append(id(code))
            append(current.f_lasti)
            current = current.f_back
        stack = tuple(key)
        index = self._numbers.get(stack)
        if index is None and len(self._numbers) < MAX_STACKS:
            self._codes.update((id(code), code) for code in codes)  # so that their ids stay valid
            index = self._numbers[stack] = len(self._numbers)
        return index

    def merge_into(self, frames: dict[Frame, int], stacks: dict[StackKey, int]) -> list[int]:
        """Add all stacks to `frames` and `stacks` of a record, outermost frame first, and return
        the index in `stacks` of each number.
        """
        lines = {number: _FrameLines(code, frames) for number, code in self._codes.items()}
        owners = [owner for *_, owner in frames]
        indices = []
        for key in self._numbers:
            walked = [(lines[key[i]].index, lines[key[i]].line(key[i + 1])) for i in range(0, len(key), 2)]
            stored = [place for i, place in enumerate(walked) if i < MAX_FRAMES or not owners[place[0]]]
            indices.append(stacks.setdefault(tuple(reversed(stored)), len(stacks)))
        return indices


class _FrameLines:
    """Index of a code object among the frames of a record, and its lines."""

    def __init__(self, code: CodeType, frames: dict[tuple[str, str, int, str], int]) -> None:
        name = code.co_filename
        file = name if name.startswith("<") else os.path.abspath(name)
        self.index = frames.setdefault((file, _function_name(code), code.co_firstlineno, owner_of(file)), len(frames))
        self._lines = list(code.co_lines())
        self._first_line = code.co_firstlineno

    def line(self, offset: int) -> int:
        """Return the line of an instruction offset; of one that has none, as the jump at the end of
        a loop, that of the instruction before it.
        """
        before = self._first_line
        for start, end, line in self._lines:
            before = before if line is None else line
            if start <= offset < end:
                return before
        return self._first_line


def _function_name(code: CodeType) -> str:
    """Return the qualified name of the function that a frame's time belongs to. A comprehension is
    a frame of its own before Python 3.12, and part of its function since.
    """
    if sys.version_info < (3, 11):
        return code.co_name  # without a qualified name the function of a comprehension is unknown
    return _COMPREHENSION.sub("", code.co_qualname) or "<module>"


def owner_of(file: str) -> str:
    """Return whose code a file holds: `""` for the user's own, `outpace`, `python` for the standard
    library, else the name of the package.
    """
    if file.startswith(_OWN_FOLDER):
        return OWN
    if file.startswith("<"):
        return _owner_of_text(file)
    if package := library_of(file):
        return "" if package == _main_package() else package
    if AUTOGRAPH_FILE in file:
        return "tensorflow"
    return PYTHON if file.startswith(_STDLIB_FOLDER) else ""


def _owner_of_text(name: str) -> str:
    """Return the owner of code without a file: what a user types (`<stdin>`, a notebook's cell) is
    the user's, and is ""; generated code (`<string>`, the methods of a data class) is Python's.
    """
    if name.startswith("<__array_function__"):
        return "numpy"
    return "" if name.startswith(_TYPED_CODE_PREFIXES) else PYTHON


def _main_package() -> str:
    """Return the installed package that runs as `-m PACKAGE` and is therefore the user's own; `/`,
    which names no package, without one.
    """
    package = getattr(sys.modules.get("__main__"), "__package__", None)
    return package.partition(".")[0] if isinstance(package, str) and package else "/"

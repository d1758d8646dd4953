"""Which lines of Python the training thread runs while a profile is recorded. Standard library only.

A profile shows what the framework does; where it shows nothing on the training thread, Python runs, and only the stack knows which line.
`ticks` says when the stack is taken and how true that is. A look costs some 6 µs on the training thread: it keeps code objects and
instruction offsets, and everything else (lines, whose code it is) is worked out after the window has closed.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import threading
import time
from types import CodeType, FrameType

from outpace.capture import ticks
from outpace.capture.faults import count, quietly
from outpace.capture.installed import library_of
from outpace.capture.pauses import Pause, Pauses
from outpace.capture.threads import OtherThreads
from outpace.store.record import PythonSamples

MOST_SAMPLES = 30_000  # ten minutes
MOST_STACKS = 5_000
MOST_WALKED = 250  # frames looked at per stack
MOST_FRAMES = 60  # innermost frames kept; the user's own are kept beyond
KEPT_TEXT = 120  # characters of a source line
OWN, PYTHON = "outpace", "python"
_PREFIX = "outpace-"  # names of our threads
Frame = tuple[str, str, int, str]  # file, function, first line, owner
Places = tuple[tuple[int, int], ...]  # of a stack: number of the frame, line
_TYPED = ("<stdin>", "<ipython-input", "<cell", "<python-input")

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_COMPREHENSION = re.compile(r"(?:(?:^|\.<locals>\.)<(?:list|set|dict)comp>)+$")


class FrameSampler:
    """Takes the stacks of one thread from `start` to `stop`. Neither ever raises: without samples there is a profile all the same."""

    def __init__(self, thread: threading.Thread | None = None) -> None:
        """Watch `thread`; by default the calling one, or the main thread when one of our own threads calls."""
        calling = threading.current_thread()
        self._thread = thread or (threading.main_thread() if calling.name.startswith(_PREFIX) else calling)
        self._stacks = Stacks()
        self._rows: list[tuple[int, int, int]] = []
        self._dropped = 0
        self._others = OtherThreads(self._thread.ident, Stacks())
        self._pauses = Pauses(self._thread.ident)
        self._ticks: ticks.SignalTicks | ticks.ThreadTicks | None = None
        self._base = (0, 0)
        if self._thread is threading.main_thread():
            with quietly():
                ticks.prepare()  # now: a timer of ours may start and stop the sampling

    def start(self) -> None:
        """Begin to sample; a second call does nothing."""
        if self._ticks is not None:
            return
        self._base = (time.time_ns(), time.monotonic_ns())
        self._pauses.start()
        self._others.start()
        with quietly():
            if self._thread is threading.main_thread() and ticks.prepare():
                by_signal = ticks.SignalTicks()
                if by_signal.start(self.take):
                    self._ticks = by_signal
                    return
        with quietly():
            by_thread = ticks.ThreadTicks(self._thread.ident or 0)
            if by_thread.start(self.take):
                self._ticks = by_thread

    def stop(self) -> PythonSamples | None:
        """End, and answer what was sampled; None when there is nothing, as at a second call."""
        used, self._ticks = self._ticks, None
        pauses = self._pauses.stop()
        self._others.stop()
        try:
            if used is None:
                return None
            used.stop()
            method = "signal" if isinstance(used, ticks.SignalTicks) else "thread"
            return self._samples(method, pauses) if self._rows else None
        except Exception as error:
            count(error)
            return None

    def take(self, frame: FrameType | None, points: list[ticks.Point]) -> None:
        """Note the stack that `frame` is the innermost of, for some moments."""
        if len(self._rows) + len(points) > MOST_SAMPLES:
            self._dropped += len(points)
            return
        index = self._stacks.index(frame)
        if index is None:
            self._dropped += len(points)
            return
        self._rows += [(moment, weight, index) for moment, weight in points]

    def _samples(self, method: str, pauses: tuple[Pause, ...] = ()) -> PythonSamples:
        unix, monotonic = self._base
        frames: dict[Frame, int] = {}
        stacks: dict[Places, int] = {}
        index_of = self._stacks.placed(frames, stacks)
        others = self._others.found(frames, stacks)
        keys = list(frames)
        owners = [owner for *_, owner in frames]
        mine = {next((place for place in reversed(stack) if not owners[place[0]]), None) for stack in stacks}
        text = tuple(
            (*place, _text(keys[place[0]][0], place[1])) for place in sorted(place for place in mine if place is not None)
        )
        rows = sorted((moment - monotonic, weight, index_of[index]) for moment, weight, index in self._rows)
        return PythonSamples(
            unix,
            self._thread.name,
            method,
            tuple(frames),
            tuple(stacks),
            tuple(rows),
            text,
            self._dropped,
            others,
            tuple((began - monotonic, took, what) for began, took, what in pauses),
        )


class Stacks:
    """Stacks that were met on one thread of ours, by number."""

    def __init__(self) -> None:
        self._codes: dict[int, CodeType] = {}
        self._numbers: dict[tuple[int, ...], int] = {}  # innermost first: id of the code, instruction offset, ...

    def index(self, frame: FrameType | None) -> int | None:
        """Number of the stack that `frame` is the innermost of; None when there are too many."""
        key: list[int] = []
        append, at = key.append, frame
        while at is not None and len(key) < 2 * MOST_WALKED:
            append(id(at.f_code))  # hashing a code object would hash all that it holds
            append(at.f_lasti)
            at = at.f_back
        stack = tuple(key)
        index = self._numbers.get(stack)
        if index is None and len(self._numbers) < MOST_STACKS:
            self._keep_codes(frame)
            index = self._numbers[stack] = len(self._numbers)
        return index

    def _keep_codes(self, frame: FrameType | None) -> None:
        """Keep the code of all frames, so that no id comes to stand for another one."""
        while frame is not None:
            self._codes[id(frame.f_code)] = frame.f_code
            frame = frame.f_back

    def placed(self, frames: dict[Frame, int], stacks: dict[Places, int]) -> list[int]:
        """Put them among `frames` and `stacks`, outermost first, of a record: which of these each number became."""
        places = {number: _Place(code, frames) for number, code in self._codes.items()}
        owners = [owner for *_, owner in frames]
        found = []
        for key in self._numbers:
            walked = [(places[key[at]].index, places[key[at]].line(key[at + 1])) for at in range(0, len(key), 2)]
            kept = [place for at, place in enumerate(walked) if at < MOST_FRAMES or not owners[place[0]]]
            found.append(stacks.setdefault(tuple(reversed(kept)), len(stacks)))
        return found


def _text(file: str, line: int) -> str:
    return linecache.getline(file, line).strip()[:KEPT_TEXT]


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
    """The function whose time it is: a comprehension is a frame of its own before Python 3.12, and part of its function since."""
    if sys.version_info < (3, 11):
        return code.co_name  # which does not tell whose comprehension it is
    return _COMPREHENSION.sub("", code.co_qualname) or "<module>"


def owner_of(file: str) -> str:
    """Whose code a file holds: `""` for the user's own, `outpace`, `python` for the standard library, else the name of the package."""
    if file.startswith(_HERE):
        return OWN
    if file.startswith("<"):
        return _owner_of_text(file)
    if package := library_of(file):
        return "" if package == _main_package() else package
    if "__autograph_generated_file" in file:
        return "tensorflow"
    return PYTHON if file.startswith(_STDLIB) else ""


def _owner_of_text(name: str) -> str:
    """Code without a file: what is typed is the user's, what is generated (the methods of a data class) is nobody's line."""
    if name.startswith("<__array_function__"):
        return "numpy"
    return "" if name.startswith(_TYPED) else PYTHON


def _main_package() -> str:
    """The installed package that is being run as `-m PACKAGE`, which is then the user's own."""
    package = getattr(sys.modules.get("__main__"), "__package__", None)
    return package.partition(".")[0] if isinstance(package, str) and package else "/"

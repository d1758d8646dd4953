"""Whose code is calling: the user's line behind a call into a library.

AutoGraph runs a rewritten copy of the user's function from a temporary file; TensorFlow's own stack
helper maps such a frame back to the line that the user wrote.
"""

from __future__ import annotations

import inspect
import linecache
import os
import sys
from types import CodeType, FrameType
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.libraries import library_of
from outpace.frameworks import keras
from outpace.frameworks.tensorflow import AUTOGRAPH_FILE, STACK

LIBRARIES = ("tensorflow", "keras", "tf_keras", "tensorflow_datasets")
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


@dataclass(frozen=True)
class CallSite:
    """A line of the user's code; `library` is the package between it and the call, None for a
    direct call, and `entry` the name of its function that the line calls.
    """

    file: str
    line: int
    library: str | None
    entry: str | None = None

    @property
    def text(self) -> str:
        """The source line, without its indentation; empty when the source is not at hand."""
        return linecache.getline(self.file, self.line).strip()


def find_call_site(depth: int = 2) -> CallSite | None:
    """The place behind the function that calls this one; None when TensorFlow itself is the direct
    caller.
    """
    frame: FrameType | None = sys._getframe(depth)
    library: str | None = None
    entry: str | None = None
    while frame is not None:
        name = frame.f_code.co_filename
        if AUTOGRAPH_FILE in name:
            return find_mapped_call_site(library)
        package = _package(name)
        if package is None and not name.startswith("<frozen"):
            return CallSite(os.path.abspath(name) if not name.startswith("<") else name, frame.f_lineno, library, entry)
        if library is None and package == "tensorflow" and not _autograph(name):
            return None
        if package not in (None, "outpace") and not _autograph(name):
            library, entry = library or package, frame.f_code.co_name
        frame = frame.f_back
    return None


def code_of(function: Any) -> CodeType | None:
    """Of the Python function, or method, that a `tf.function` was made of; TensorFlow wraps a
    method once more.
    """
    python = getattr(function, "python_function", None)
    code = getattr(inspect.unwrap(python), "__code__", None) if callable(python) else None
    return code if isinstance(code, CodeType) else None


def is_user_file(filename: str) -> bool:
    """Whether a file is the user's own: no library's, not the interpreter's, not ours."""
    return not (filename.startswith(("<", _OWN, _LIBRARY)) or AUTOGRAPH_FILE in filename or library_of(filename))


def is_keras_code(code: CodeType) -> bool:
    """Whether code is Keras' own."""
    return keras.FOLDER in code.co_filename.replace("\\", "/")


def _package(filename: str) -> str | None:
    if filename.startswith(_OWN):
        return "outpace"
    package = library_of(filename)
    return package if package in LIBRARIES else None


def _autograph(filename: str) -> bool:
    """AutoGraph's call dispatch stands between the user's function and what it calls, and the
    trace-back filter too.
    """
    return "autograph" in filename or "traceback_utils" in filename


def find_mapped_call_site(library: str | None) -> CallSite | None:
    """The user's line as TensorFlow maps it; private, so any surprise means no place."""
    try:
        frames = list(STACK.value())
    except Exception:
        return None
    for frame in reversed(frames):
        name = str(frame.filename)
        if AUTOGRAPH_FILE not in name and _package(name) is None and not name.startswith("<"):
            return CallSite(os.path.abspath(name), int(frame.lineno), library)
    return None

# SPDX-License-Identifier: Apache-2.0
"""Finds the user's line behind a call into a library.

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
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB_FOLDER = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


@dataclass(frozen=True)
class CallSite:
    """A line of the user's code that leads to a call.

    file, line: source file and line number.
    library: package between the line and the call; None where the line makes the call itself.
    entry: function of that package that the line calls.
    """

    file: str
    line: int
    library: str | None
    entry: str | None = None

    @property
    def text(self) -> str:
        """Source line without its indentation; "" where the source is not available."""
        return linecache.getline(self.file, self.line).strip()


def find_call_site(depth: int = 2) -> CallSite | None:
    """Return the user's line that leads to the function which calls this one; None when TensorFlow
    itself is the direct caller.

    `depth` is the number of frames to skip, as in `sys._getframe`.
    """
    frame: FrameType | None = sys._getframe(depth)
    library: str | None = None
    entry: str | None = None
    while frame is not None:
        name = frame.f_code.co_filename
        if AUTOGRAPH_FILE in name:
            return find_mapped_call_site(library)
        package = _package_of(name)
        if package is None and not name.startswith("<frozen"):
            return CallSite(os.path.abspath(name) if not name.startswith("<") else name, frame.f_lineno, library, entry)
        if library is None and package == "tensorflow" and not _is_autograph_file(name):
            return None
        if package not in (None, "outpace") and not _is_autograph_file(name):
            library, entry = library or package, frame.f_code.co_name
        frame = frame.f_back
    return None


def code_of(function: Any) -> CodeType | None:
    """Return the code of the Python function, or method, from which a `tf.function` was made; None
    for anything else. TensorFlow wraps a method once more.
    """
    python = getattr(function, "python_function", None)
    code = getattr(inspect.unwrap(python), "__code__", None) if callable(python) else None
    return code if isinstance(code, CodeType) else None


def is_user_file(filename: str) -> bool:
    """Whether a file is the user's own: not of a library, the interpreter or Outpace."""
    return not (filename.startswith(("<", _OWN_FOLDER, _STDLIB_FOLDER)) or AUTOGRAPH_FILE in filename or library_of(filename))


def is_keras_code(code: CodeType) -> bool:
    """Whether code belongs to Keras."""
    return keras.FOLDER in code.co_filename.replace("\\", "/")


def _package_of(filename: str) -> str | None:
    """Return `outpace` or the name in `LIBRARIES` to which a file belongs; None for any other
    file.
    """
    if filename.startswith(_OWN_FOLDER):
        return "outpace"
    package = library_of(filename)
    return package if package in LIBRARIES else None


def _is_autograph_file(filename: str) -> bool:
    """Whether a file holds AutoGraph's call dispatch or TensorFlow's traceback filter, which stand
    between the user's function and what it calls.
    """
    return "autograph" in filename or "traceback_utils" in filename


def find_mapped_call_site(library: str | None) -> CallSite | None:
    """Return the user's line as TensorFlow's private stack helper maps it; None where that
    fails.
    """
    try:
        frames = list(STACK.value())
    except Exception:
        return None
    for frame in reversed(frames):
        name = str(frame.filename)
        if AUTOGRAPH_FILE not in name and _package_of(name) is None and not name.startswith("<"):
            return CallSite(os.path.abspath(name), int(frame.lineno), library)
    return None

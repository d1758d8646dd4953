"""Where the next line of ours begins: a script's progress bar, on the same terminal, may have left
its line open. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TextIO


def line_start(stream: TextIO, unknown: str = "") -> str:
    """What to write before a line of our own so that it begins at the left, whoever wrote last.

    `unknown` is the answer where nothing can be known: behind a pipe.
    """
    with contextlib.suppress(OSError, ValueError):
        descriptor = stream.fileno()
        if os.isatty(descriptor):
            return _in_terminal(os.get_terminal_size(descriptor).columns)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return _in_file(descriptor)
        return unknown
    return ""


def _in_terminal(columns: int) -> str:
    """A line of spaces and back: at the left it fills its own line, and anywhere else it runs over
    into the next one (as zsh does it).
    """
    return " " * columns + "\r" if columns else "\n"


def _in_file(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    with open(f"/dev/fd/{descriptor}", "rb") as file:  # it may be open for writing alone
        file.seek(max(0, size - 1))
        return "" if file.read(1) in (b"", b"\n") else "\n"

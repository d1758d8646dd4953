# SPDX-License-Identifier: Apache-2.0
"""Makes a message of Outpace begin at the start of a line: a script's progress bar on the same
terminal may have left its line open. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TextIO


def line_start(stream: TextIO, unknown: str = "") -> str:
    """Return what to write before a message so that it begins at the start of a line, whoever wrote
    last.

    `unknown` is returned for a pipe, whose last character cannot be known.
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
    """Return a line of spaces and a carriage return, as zsh writes it.

    At the start of a line the spaces fill that line; anywhere else they run over into the next one.
    """
    return " " * columns + "\r" if columns else "\n"


def _in_file(descriptor: int) -> str:
    """Return a newline where the file's last character is none, else ""."""
    size = os.fstat(descriptor).st_size
    # opened again, because the descriptor may be open for writing only
    with open(f"/dev/fd/{descriptor}", "rb") as file:
        file.seek(max(0, size - 1))
        return "" if file.read(1) in (b"", b"\n") else "\n"

# SPDX-License-Identifier: Apache-2.0
"""Prints messages to the user of a program that is being captured."""

from __future__ import annotations

import contextlib
import sys

from outpace.capture.line_start import line_start
from outpace.model.text import clean_prose


def print_message(text: str) -> None:
    """Print one line to the stderr with which the process started; the script may have replaced
    `sys.stderr`.
    """
    stream = sys.__stderr__
    if stream is not None:
        # RuntimeError: called inside a write of the program's own
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            stream.flush()
            stream.write(f"{line_start(stream)}outpace: {clean_prose(text)}\n")
            stream.flush()

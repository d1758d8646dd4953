"""What the user is told while a program runs that is captured."""

from __future__ import annotations

import contextlib
import sys

from outpace.capture.line_start import line_start
from outpace.model.text import clean_prose


def print_message(text: str) -> None:
    """One line for the user, on the stderr that the process started with: the script may have
    replaced sys.stderr.
    """
    stream = sys.__stderr__
    if stream is not None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # the last: inside a write of the program's
            stream.flush()
            stream.write(f"{line_start(stream)}outpace: {clean_prose(text)}\n")
            stream.flush()

# SPDX-License-Identifier: Apache-2.0
"""A progress line in a terminal for commands that take long: it is updated in place and removed at
the end.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator

from outpace.model.text import clean

_AFTER, _EVERY = 2.0, 0.25  # delay before the line is shown and interval of its updates, seconds
_LINE = "\r\x1b[2K"  # returns to the line's beginning and clears the line


@contextlib.contextmanager
def show_progress(message: Callable[[float], str]) -> Iterator[None]:
    """Return a context manager that shows a progress line from the third second on; `message`
    returns the text for the elapsed seconds. Nothing is shown outside of a terminal.
    """
    if not sys.stderr.isatty():
        yield
        return
    began, finished = time.monotonic(), threading.Event()

    def show() -> None:
        wait, is_shown = _AFTER, False
        while not finished.wait(wait):
            width = shutil.get_terminal_size((80, 24)).columns - 1
            sys.stderr.write(_LINE + clean(message(time.monotonic() - began), width))
            sys.stderr.flush()
            wait, is_shown = _EVERY, True
        if is_shown:
            sys.stderr.write(_LINE)
            sys.stderr.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def show_reading(path: object) -> contextlib.AbstractContextManager[None]:
    """Return a context manager that shows a progress line while a profile is read."""
    return show_progress(lambda passed: f"Reading {path}: {passed:.0f} s")


def format_remaining(elapsed_s: float, expected_s: float) -> str:
    """Return the remaining time in words, for work that has taken `elapsed_s` of about
    `expected_s` seconds.
    """
    more = expected_s - elapsed_s
    if more < 2:
        return "nearly done"
    return f"about {more:.0f} s left" if more < 90 else f"about {more / 60:.0f} min left"

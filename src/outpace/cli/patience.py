"""What a command says in a terminal while its work takes longer than people like to wait: one line that moves, and goes in the end."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator

from outpace.model.text import clean

_AFTER, _EVERY = 2.0, 0.25  # seconds
_LINE = "\r\x1b[2K"  # back to the beginning of an empty line


@contextlib.contextmanager
def patience(said: Callable[[float], str]) -> Iterator[None]:
    """Show what `said` answers to the seconds that have passed, from the third second on; elsewhere than in a terminal, nothing."""
    if not sys.stderr.isatty():
        yield
        return
    began, done = time.monotonic(), threading.Event()

    def show() -> None:
        wait, shown = _AFTER, False
        while not done.wait(wait):
            width = shutil.get_terminal_size((80, 24)).columns - 1
            sys.stderr.write(_LINE + clean(said(time.monotonic() - began), width))
            sys.stderr.flush()
            wait, shown = _EVERY, True
        if shown:
            sys.stderr.write(_LINE)
            sys.stderr.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def reading(path: object) -> contextlib.AbstractContextManager[None]:
    """The same while a profile is read."""
    return patience(lambda passed: f"Reading {path}: {passed:.0f} s")


def left(passed: float, expected: float) -> str:
    """In words, how long work goes on that has taken `passed` of about `expected` seconds."""
    more = expected - passed
    if more < 2:
        return "nearly done"
    return f"about {more:.0f} s left" if more < 90 else f"about {more / 60:.0f} min left"

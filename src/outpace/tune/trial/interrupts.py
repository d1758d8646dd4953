# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while trials run: never lost, and never in the middle of what puts things back."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """A context around trials that remembers each SIGINT and then does what the script's own
    handler does (Python's raises KeyboardInterrupt).

    Remembering matters because the exception can get lost: C code that asks an object for an
    attribute clears whatever the attribute raised. `check` raises it again. Does nothing outside
    the main thread, and where the script ignores the signal.
    """

    def __init__(self) -> None:
        self.seen = False
        self._shielded = False
        self._before: Callable[[int, FrameType | None], Any] | None = None

    def __enter__(self) -> Interrupts:
        before = signal.getsignal(signal.SIGINT)
        if callable(before) and threading.current_thread() is threading.main_thread():
            self._before = before
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._before is not None and signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Raise KeyboardInterrupt when there was one."""
        if self.seen:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def shield(self) -> Iterator[None]:
        """Inside the block a signal is only remembered."""
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        if not self._shielded and self._before is not None:
            self._before(number, frame)

"""What the script's main thread must not do while its loop is run again for trials: print, and save by code of the frameworks.

The user's files are the guard's matter; what is off here would be said, and timed, again and again. Standard library only."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any

from outpace.tune.guard.writers import Writers


class Muted:
    """Mutes one thread. off: savers that were called."""

    def __init__(self) -> None:
        self.off: set[str] = set()
        self._main = threading.main_thread().ident
        self._forever = contextlib.ExitStack()  # never left

    def begin(self) -> None:
        """From now on, to the end of the process."""
        Writers(self.off).switch_off(lambda: threading.get_ident() == self._main)
        for name in ("stdout", "stderr"):
            setattr(sys, name, _Silent(getattr(sys, name), self._main))
        summary = getattr(sys.modules.get("tensorflow"), "summary", None)
        if summary is not None:
            self._forever.enter_context(summary.record_if(False))


class _Silent:
    """A stream that swallows what one thread writes."""

    def __init__(self, stream: Any, thread: int | None) -> None:
        self._stream, self._thread = stream, thread

    def write(self, text: str) -> int:
        """Write, or swallow it."""
        return len(text) if threading.get_ident() == self._thread else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

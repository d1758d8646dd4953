# SPDX-License-Identifier: Apache-2.0
"""What the user's own code tells beside its output: through `logging`, and on stderr. What
frameworks tell there is no part of a program.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any


class Said:
    """lines: in their order, from `begin` on."""

    def __init__(self, users: Callable[[str], bool]) -> None:
        self._users, self._text = users, ""
        self._logged: list[str] = []

    def begin(self) -> None:
        """Listen."""
        plain, said = logging.Logger.handle, self

        def handle(self: logging.Logger, record: logging.LogRecord) -> None:
            if said._users(record.pathname):
                said._logged.append(f"{record.levelname} {record.getMessage()}")
            plain(self, record)

        logging.Logger.handle = handle  # type: ignore[method-assign]  # this process does nothing else
        sys.stderr = _Heard(sys.stderr, self)

    def heard(self, text: str, file: str) -> None:
        """Something was written to stderr by code of a file."""
        if self._users(file):
            self._text += text

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it, what was logged first."""
        return (*self._logged, *self._text.splitlines())


class _Heard:
    """Stderr, with a listener."""

    def __init__(self, stream: Any, said: Said) -> None:
        self._stream, self._said = stream, said

    def write(self, text: str) -> int:
        """Write it."""
        self._said.heard(text, sys._getframe(1).f_code.co_filename)
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

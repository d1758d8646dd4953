# SPDX-License-Identifier: Apache-2.0
"""What the user's own code tells: on stderr, through `logging` and `warnings`, and which of the
lines on stdout are its own. What frameworks tell there is no part of a program.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

_KERAS = re.compile(r"[/\\](?:tf_)?keras[/\\]")  # in the path of a file


class Said:
    """Listens to the user's code. users: whether a file is one of the user's."""

    def __init__(self, users: Callable[[str], bool]) -> None:
        self._users = users
        self._texts = {"stdout": "", "stderr": ""}
        self._drawn = ""  # by Keras, on both
        self._logged: list[str] = []

    def begin(self) -> None:
        """Listen."""
        plain, show, said = logging.Logger.handle, warnings.showwarning, self

        def handle(self: logging.Logger, record: logging.LogRecord) -> None:
            if said._users(record.pathname):
                said._logged.append(f"{record.levelname} {record.getMessage()}")
            plain(self, record)

        def show_warning(message: Any, category: Any, filename: str, *args: Any, **kwargs: Any) -> None:
            if said._users(filename):
                said._logged.append(f"{category.__name__} {message}")
            show(message, category, filename, *args, **kwargs)

        logging.Logger.handle = handle  # type: ignore[method-assign]  # this process does nothing else
        warnings.showwarning = show_warning
        sys.stdout, sys.stderr = _Heard(sys.stdout, self, "stdout"), _Heard(sys.stderr, self, "stderr")

    def hear(self, text: str, stream: str, file: str) -> None:
        """Note what code of a file has written to a stream."""
        if self._users(file):
            self._texts[stream] += text
        elif _KERAS.search(file):
            self._drawn += text

    @property
    def lines(self) -> tuple[str, ...]:
        """All but what was printed, what was logged first."""
        return (*self._logged, *self._texts["stderr"].splitlines())

    @property
    def printed(self) -> frozenset[str]:
        """Lines that the user's code printed."""
        return frozenset(self._texts["stdout"].splitlines())

    @property
    def drawn(self) -> frozenset[str]:
        """Lines that Keras wrote, of its progress bars."""
        return frozenset(self._drawn.replace("\r", "\n").splitlines())


class _Heard:
    """A stream of text, with a listener."""

    def __init__(self, stream: Any, said: Said, name: str) -> None:
        self._stream, self._said, self._name = stream, said, name

    def write(self, text: str) -> int:
        """Write it."""
        self._said.hear(text, self._name, sys._getframe(1).f_code.co_filename)
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

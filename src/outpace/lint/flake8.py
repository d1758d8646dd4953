# SPDX-License-Identifier: Apache-2.0
"""Rules of `outpace lint` as flake8 plugins: one plugin for each letter code, because flake8
selects plugins by the codes that they report.

Only warnings are reported, because flake8 has no notes.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from typing import ClassVar

from outpace._version import __version__
from outpace.lint.context import Level, Message
from outpace.lint.runner import lint_text


class Plugin:
    """Plugin that flake8 creates for each file. Its codes are the rules' ids."""

    name: ClassVar[str] = "outpace"
    version: ClassVar[str] = __version__
    code: ClassVar[str]

    def __init__(self, tree: ast.AST, filename: str, lines: Sequence[str]) -> None:
        self._text, self._path = "".join(lines), filename

    def run(self) -> Iterator[tuple[int, int, str, type[Plugin]]]:
        """Yield line (from 1), column (from 0), code and sentence of each warning."""
        for message in _messages(self._text, self._path):
            if message.level is Level.WARNING and message.rule.startswith(self.code):
                yield message.line, message.column - 1, f"{message.rule} {message.sentence}", type(self)


@functools.lru_cache(maxsize=1)
def _messages(text: str, path: str) -> list[Message]:
    """Return the messages about a file; cached, because flake8 runs all plugins one after the
    other.
    """
    return lint_text(text, path)


class Pipelines(Plugin):
    """Rules on tf.data."""

    code = "DS"


class JaxPrograms(Plugin):
    """Rules on JAX."""

    code = "JX"


class KerasVersions(Plugin):
    """Rules on Keras."""

    code = "KR"


class Loops(Plugin):
    """Rules on training loops."""

    code = "LP"


class Profiles(Plugin):
    """Rules on marks for a profile."""

    code = "PF"


class Functions(Plugin):
    """Rules on `tf.function`."""

    code = "TF"

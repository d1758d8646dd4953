# SPDX-License-Identifier: Apache-2.0
"""Blocks of text in a terminal: what the first screen and the pages are written with."""

from __future__ import annotations

from rich.text import Text

from outpace.report.console import PlainConsole

WIDEST_PROSE = 110
"""Maximum width of a line of prose, cells."""


class BlockWriter:
    """Writer of blocks to one console, with its width and colours."""

    def __init__(self, console: PlainConsole) -> None:
        self.console = console
        self.width = console.width - 2  # every block is indented by two

    def _lines(self, lines: list[Text], *, crop: bool = True) -> None:
        """Print lines that are laid out to the width."""
        for line in lines:
            line.rstrip()
            self.console.print(Text("  ") + line, no_wrap=True, overflow="ignore", crop=crop)

    def _prose(self, text: str, style: str = "", *, indent: int = 2, hang: int = 0) -> None:
        self._print(Text(text, style=style), indent, hang)

    def _print(self, text: Text, indent: int, hang: int = 0, label: str = "") -> None:
        """Print `text` wrapped, later lines indented by `hang` more, or all of them next to a
        label. A long name is broken, never truncated.
        """
        hang = hang or len(label)
        lines = text.wrap(self.console, min(self.console.width, WIDEST_PROSE) - indent - hang, overflow="fold")
        for i, line in enumerate(lines):
            line.rstrip()
            self.console.print(Text(" " * indent + (" " * hang if i else label)) + line, no_wrap=True)

    def _blank(self) -> None:
        self.console.print()

# SPDX-License-Identifier: Apache-2.0
"""Report in a terminal: the first screen, then one block per page, for any width
from 40 columns.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

from outpace.model import (
    Command,
    Report,
)
from outpace.model import Paragraph as Paragraph
from outpace.model.text import clean_prose
from outpace.report import terminal_screen
from outpace.report.console import PlainConsole
from outpace.report.first_screen import FirstScreen, build_first_screen
from outpace.report.terminal_blocks import WIDEST_PROSE, BlockWriter

_NARROWEST = 40
_HEIGHT = 25  # console height, which only avoids that Rich asks the terminal for it at every line
FILE_OPTIONS = ("--csv", "--html")  # options of `outpace report` that write all rows of a table


def render(
    report: Report, *, width: int | None = None, color: bool = False, tools: Sequence[str] | None = None, details: bool = False
) -> str:
    """Return the report as text.

    `width` is in columns (None: the terminal's). Only the first screen is included, unless `tools`
    lists ids of pages, which then replace it below the warnings, or `details` adds every page after
    it.
    """
    out = io.StringIO()
    _write(report, _console(out, width, color), tools, details)
    return out.getvalue()


def print_report(
    report: Report,
    *,
    file: TextIO | None = None,
    width: int | None = None,
    color: bool | None = None,
    tools: Sequence[str] | None = None,
    details: bool = False,
    show_commands: bool = False,
    file_options: Sequence[str] = FILE_OPTIONS,
) -> None:
    """Print the report to `file` (standard output). Terminals get colours, unless `NO_COLOR` or
    `color` overrides it.

    `show_commands`: whether next commands also follow the pages of `tools`. `file_options`: options
      of the command that write all rows of tables.
    """
    console = _console(file or sys.stdout, width, color)
    _write(report, console, tools, details, file_options)
    if show_commands and report.next:
        _ScreenWriter(console).commands(report.next)


def _console(file: TextIO, width: int | None, color: bool | None) -> PlainConsole:
    columns = width or shutil.get_terminal_size((80, 24)).columns
    return PlainConsole(
        file=file,
        width=max(columns, _NARROWEST),
        height=_HEIGHT,
        force_terminal=color,
        no_color=None if color is None else not color,
        color_system="auto" if color is None else "truecolor" if color else None,
    )


def _write(
    report: Report, console: PlainConsole, tools: Sequence[str] | None, details: bool, files: Sequence[str] = FILE_OPTIONS
) -> None:
    writer, screen = _ScreenWriter(console), build_first_screen(report)
    if tools is None:
        writer.screen(screen)
        pages, glance = report.pages if details else (), screen.glance
    else:
        writer.warnings(screen)
        pages, glance = tuple(page for page in report.pages if page.id in tools), None
    if pages:
        from outpace.report.terminal_pages import PageWriter  # the first screen has no page

        PageWriter(console, report.references(), files).pages(pages, glance, fold_unavailable=tools is None)


class _ScreenWriter(BlockWriter):
    """Writer of what stands around the pages: warnings, the first screen, next commands."""

    def warnings(self, screen: FirstScreen) -> None:
        """Print the warnings about missing or doubtful data, before any results."""
        for warning in screen.warnings:
            self._prose(f"! {warning}", "yellow", hang=2)
        if screen.warnings:
            self._blank()

    def screen(self, screen: FirstScreen) -> None:
        self._lines(terminal_screen.render_screen(screen, self.console, min(self.width, WIDEST_PROSE)), crop=False)

    def commands(self, commands: Sequence[Command]) -> None:
        """Print the next commands with their reasons, in as many lines as needed."""
        self._blank()
        for line, command in zip(terminal_screen.render_commands(commands, 0), commands, strict=True):
            self._lines([line], crop=False)
            self._prose(clean_prose(command.what), "dim", indent=2 + terminal_screen.LABEL_WIDTH)

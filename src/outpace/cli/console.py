# SPDX-License-Identifier: Apache-2.0
"""Sentences that commands print in addition to a report. Their contents may come from profiles and
are printed as plain text, never as markup.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from outpace.model.text import clean_prose

if TYPE_CHECKING:
    from outpace.report.console import PlainConsole

_WIDEST = 110  # maximum width in columns: longer lines of prose are hard to read


@contextlib.contextmanager
def name_option(name: str) -> Iterator[None]:
    """Return a context manager that adds the option's name to the error where a file cannot be
    written.
    """
    from outpace.model import OutputError

    try:
        yield
    except OutputError as error:
        raise OutputError(f"{name}: {error}") from error


def print_note(text: str) -> None:
    """Print a line on standard error."""
    typer.echo(clean_prose(text), err=True)


def build_console(width: int | None, color: bool | None) -> PlainConsole:
    """Return a console of that width in columns (by default the terminal's, up to 110), with
    colours when requested or when printing to a terminal.
    """
    from outpace.report.console import PlainConsole

    return PlainConsole(
        width=width or min(shutil.get_terminal_size((80, 24)).columns, _WIDEST),
        force_terminal=color,
        no_color=None if color is None else not color,
    )

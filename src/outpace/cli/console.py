"""What the commands print beside a report: sentences, to people. What stands in them may come from
anywhere, and is text.
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

_WIDEST = 110  # columns: longer lines of prose are hard to read


@contextlib.contextmanager
def name_option(name: str) -> Iterator[None]:
    """Name the option that asked for a file which cannot be written."""
    from outpace.model import OutputError

    try:
        yield
    except OutputError as error:
        raise OutputError(f"{name}: {error}") from error


def print_note(text: str) -> None:
    """A line on standard error."""
    typer.echo(clean_prose(text), err=True)


def build_console(width: int | None, color: bool | None) -> PlainConsole:
    """A console of so many columns (by default the terminal's, up to 110), with colours when asked
    for or when printing to a terminal.
    """
    from outpace.report.console import PlainConsole

    return PlainConsole(
        width=width or min(shutil.get_terminal_size((80, 24)).columns, _WIDEST),
        force_terminal=color,
        no_color=None if color is None else not color,
    )

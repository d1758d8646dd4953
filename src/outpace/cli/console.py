"""The console of the commands that list sentences: what they print is text, whatever stands in it."""

from __future__ import annotations

import io
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_WIDEST = 110  # columns: longer lines of prose are hard to read


def sentences(width: int | None, color: bool | None) -> Console:
    """A console of so many columns (by default the terminal's, up to 110), with colours when asked for or when printing to a terminal."""
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a source line or a path may hold characters that the terminal lacks
    return Console(
        width=width or min(shutil.get_terminal_size((80, 24)).columns, _WIDEST),
        force_terminal=color,
        no_color=None if color is None else not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )

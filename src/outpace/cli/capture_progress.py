"""What `outpace capture` shows on stderr while it waits: one moving line in a terminal, a line per event elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from outpace.capture.remote.result import sentence
from outpace.cli.console import note

if TYPE_CHECKING:
    from outpace.capture.remote.result import Progress

PATIENCE = 10.0  # seconds between two lines that say the same, where lines stay


@contextlib.contextmanager
def showing(duration: float) -> Iterator[Callable[[Progress], None]]:
    """A function that shows the progress it is told, as long as the block lasts. `duration` is that of the capture, in seconds."""
    if not sys.stderr.isatty():
        yield Lines(duration).show
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status("", spinner="dots") as status:
        yield lambda progress: status.update(sentence(progress, duration, moving=True))


class Lines:
    """Prints a line when something new is to be said, and again after some time without news."""

    def __init__(self, duration: float) -> None:
        self._duration = duration
        self._said = ""
        self._since = 0.0

    def show(self, progress: Progress) -> None:
        """Print what is new."""
        text = sentence(progress, self._duration, moving=False)
        if text != self._said or progress.elapsed - self._since >= PATIENCE:
            self._said, self._since = text, progress.elapsed
            note(f"outpace: {text}")

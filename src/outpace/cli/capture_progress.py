# SPDX-License-Identifier: Apache-2.0
"""The progress of `outpace capture` on standard error: one updating line in a terminal, a line per
event elsewhere.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from outpace.capture.remote.result import format_progress
from outpace.cli.console import print_note

if TYPE_CHECKING:
    from outpace.capture.remote.result import CaptureProgress

REPEAT_SECONDS = 10.0  # seconds before an unchanged line is printed again, outside of a terminal


@contextlib.contextmanager
def show_capture_progress(duration_s: float) -> Iterator[Callable[[CaptureProgress], None]]:
    """Return a context manager whose value is a function that shows the progress passed to it.
    `duration_s` is the capture's duration in seconds.
    """
    if not sys.stderr.isatty():
        yield ProgressLines(duration_s).show
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status("", spinner="dots") as status:
        yield lambda progress: status.update(format_progress(progress, duration_s, live=True))


class ProgressLines:
    """Prints a line when the progress text changes, and again after some time without a change."""

    def __init__(self, duration: float) -> None:
        self._duration = duration
        self._last_text = ""
        self._last_elapsed = 0.0

    def show(self, progress: CaptureProgress) -> None:
        """Print the progress if it is new or due again."""
        text = format_progress(progress, self._duration, live=False)
        if text != self._last_text or progress.elapsed - self._last_elapsed >= REPEAT_SECONDS:
            self._last_text, self._last_elapsed = text, progress.elapsed
            print_note(f"outpace: {text}")

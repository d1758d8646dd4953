# SPDX-License-Identifier: Apache-2.0
"""Serves the timeline viewer for a run in the workbench, and for a single profile in `outpace
trace`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from outpace.ui import worker
from outpace.ui.http import BYTES, HTML, JSON, Request, Response, redirect, text_response
from outpace.ui.part_choice import build_choices
from outpace.viewer import ExportSummary, Selection, write_trace
from outpace.viewer.perfetto import build_url_fragment, content_security_policy, find_file
from outpace.viewer.view_range import ViewRange, find_step_view

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

TYPES = {
    ".html": HTML,
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": JSON,
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
    ".png": "image/png",
}
_ALL = 400_000  # maximum number of events that the viewer opens within a second or two
_MARGIN_STEPS = 3  # number of steps on either side that the trace of a longer capture contains


def select_view(
    folder: str, state: str, step: int | None, host: str | None, part: Mapping[str, str]
) -> tuple[ViewRange, tuple[int, int] | None]:
    """Return the visible time range, by default that of the selected part, and the first and the
    last step that the trace file needs for it (None: the whole capture). Runs in a worker process.
    """
    run = worker.load_profile(folder, state).run
    selection = build_choices(run).parse_part(part)
    if selection.hosts and host is None:
        host = selection.hosts[0]
    if selection.steps is not None and step is None:
        step = selection.steps[0]
    view = find_step_view(run, step, host)
    if view.step is None or run.events <= _ALL:
        return view, None
    return view, (view.step - _MARGIN_STEPS, view.step + _MARGIN_STEPS)


def write_trace_file(folder: str, state: str, path: str, steps: tuple[int, int] | None) -> ExportSummary:
    """Write the trace, or these steps of it, into a file. Runs in a worker process."""
    with open(path, "wb") as file:
        return write_trace(worker.load_profile(folder, state).run, file.fileno(), selection=Selection(steps=steps))


def viewer_file(folder: Path, name: str) -> Response:
    """Return the response with a file of the viewer's build."""
    file = find_file(folder, name)
    if file is None:
        return text_response(404, "The viewer has no such file.")
    return Response(
        file.read_bytes(), TYPES.get(file.suffix, BYTES), headers={"Content-Security-Policy": content_security_policy(folder)}
    )


class _Again(io.RawIOBase):
    """Raw stream over an open file, with a position of its own, so that several readers can read
    the same file independently.
    """

    def __init__(self, file: int) -> None:
        self._file, self._position = file, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position and return it."""
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: os.fstat(self._file).st_size}[whence]
        self._position = max(0, begin + offset)
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read at the position into a buffer, and return the number of bytes. Raises OSError on
        Windows.
        """
        if sys.platform == "win32":
            raise OSError("The workbench needs Linux or macOS.")
        into = memoryview(buffer).cast("B")
        block = os.pread(self._file, len(into), self._position)
        into[: len(block)] = block
        self._position += len(block)
        return len(block)


class TraceSite:
    """Serves one trace and the viewer, which opens it at the selected range."""

    def __init__(self, folder: Path, trace: IO[bytes], sight: ViewRange) -> None:
        self._folder, self._trace, self._sight = folder, trace, sight

    def answer(self, request: Request) -> Response:
        """Return the response to a request."""
        if request.path == "":
            trace_url = f"http://{request.headers['host']}/trace"  # the viewer accepts absolute addresses only
            return redirect("viewer/index.html" + build_url_fragment(trace_url, self._sight, hideSidebar="true"))
        if request.path == "trace":
            return Response(io.BufferedReader(_Again(self._trace.fileno())), BYTES)
        if request.path.startswith("viewer/"):
            return viewer_file(self._folder, request.path.removeprefix("viewer/"))
        return text_response(404, "There is nothing here.")

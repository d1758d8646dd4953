"""Opening a profile: from a path to a `Trace`."""

from __future__ import annotations

from pathlib import Path

from outpace.trace.formats import ending_of, format_of
from outpace.trace.trace import Trace


def open_trace(path: str | Path, host: str | None = None) -> Trace:
    """Decode the profile at `path`, in whatever format its name says.

    `host` defaults to the file's name without its endings: in a remote capture all files claim the same host inside. Raises NotFoundError,
    or ProfileError where nothing of it can be read.
    """
    path = Path(path)
    return format_of(path.name).open(path, host or path.name.removesuffix(ending_of(path.name)))

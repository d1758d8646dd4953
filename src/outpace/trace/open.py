"""Opening a profile: from a path, or from what is held in memory, to a `Trace`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from outpace.trace.formats import InMemoryProfile, find_ending, find_format
from outpace.trace.limits import ReadLimits
from outpace.trace.selection import select_window
from outpace.trace.trace import Trace

_NAMELESS = "host"


def open_trace(source: str | Path | InMemoryProfile, host: str | None = None, limits: ReadLimits | None = None) -> Trace:
    """Decode the profile at a path, or one that is held in memory, in whatever format its name
    says.

    `host` defaults to the file's name without its endings: in a remote capture all files claim the
    same host inside. Where there is no name, the profile itself says it. `limits`: how much of it;
    all by default. Raises NotFoundError, ProfileError where nothing of it can be read,
    TooLargeError where there is no room for it, and UsageError for a window in which it has no
    event.
    """
    source = source if isinstance(source, InMemoryProfile) else Path(source)
    name = Path(source.name).name
    host = host or name.removesuffix(find_ending(name))
    limits = limits or ReadLimits()
    trace = find_format(name).open(source, host, limits)
    if limits.window is not None and trace.window is None and not limits.window.optional:
        trace = select_window(trace, limits.window)
    return trace if host else replace(trace, host=next(iter(trace.hostnames), _NAMELESS))

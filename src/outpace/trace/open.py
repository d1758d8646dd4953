"""Opening a profile: from a path, or from what is held in memory, to a `Trace`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from outpace.trace.formats import Held, ending_of, format_of
from outpace.trace.limits import Limits
from outpace.trace.part import within
from outpace.trace.trace import Trace

_NAMELESS = "host"


def open_trace(place: str | Path | Held, host: str | None = None, limits: Limits | None = None) -> Trace:
    """Decode the profile at a path, or one that is held in memory, in whatever format its name says.

    `host` defaults to the file's name without its endings: in a remote capture all files claim the same host inside. Where there is no name,
    the profile itself says it. `limits`: how much of it; all by default. Raises NotFoundError, ProfileError where nothing of it can be read,
    TooLargeError where there is no room for it, and UsageError for a window in which it has no event.
    """
    place = place if isinstance(place, Held) else Path(place)
    name = Path(place.name).name
    host = host or name.removesuffix(ending_of(name))
    limits = limits or Limits()
    trace = format_of(name).open(place, host, limits)
    if limits.window is not None and trace.window is None and not limits.window.spare:
        trace = within(trace, limits.window)
    return trace if host else replace(trace, host=next(iter(trace.hostnames), _NAMELESS))

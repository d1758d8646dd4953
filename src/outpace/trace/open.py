# SPDX-License-Identifier: Apache-2.0
"""Opening of a profile: from a path, or from bytes in memory, to a `Trace`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from outpace.trace.formats import InMemoryProfile, find_ending, find_format
from outpace.trace.limits import ReadLimits
from outpace.trace.selection import select_window
from outpace.trace.trace import Trace

_NAMELESS = "host"


def open_trace(source: str | Path | InMemoryProfile, host: str | None = None, limits: ReadLimits | None = None) -> Trace:
    """Decode the profile at a path, or one in memory, in the format that its name indicates.

    host: by default the file's name without its ending, because in a remote capture all files
        contain the same host name; the name inside the profile is used where the file has no name.
    limits: part of the time and memory; no limits by default.

    Raises NotFoundError, ProfileError where nothing can be read, TooLargeError where its events
    exceed the memory, and UsageError for a window without events.
    """
    source = source if isinstance(source, InMemoryProfile) else Path(source)
    name = Path(source.name).name
    host = host or name.removesuffix(find_ending(name))
    limits = limits or ReadLimits()
    trace = find_format(name).open(source, host, limits)
    if limits.window is not None and trace.window is None and not limits.window.optional:
        trace = select_window(trace, limits.window)
    return trace if host else replace(trace, host=next(iter(trace.hostnames), _NAMELESS))

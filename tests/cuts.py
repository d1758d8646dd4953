"""Small profiles to make mutants of: stretches of every real one in `tests/data`, with all kinds of
lines that it has.
"""

from __future__ import annotations

import functools
import gzip
from pathlib import Path
from typing import Any

from tests.support import DATA
from tests.xspace_proto import XSpace

_EVENTS = 1500  # of a cut
_PROGRAM = 60_000  # bytes of a compiled program that a cut keeps


@functools.cache
def seeds() -> tuple[tuple[Path, bool], ...]:
    """What there are cuts of: a host's profile, and whether the cut is of its middle, not of its
    begin.
    """
    return tuple((path, middle) for path in sorted((DATA / "profiles").glob("*/*.xplane.pb.gz")) for middle in (False, True))


@functools.lru_cache(maxsize=8)
def cut(path: Path, middle: bool) -> bytes:
    """A stretch of the time of a profile, with the names that it needs."""
    space = XSpace.FromString(gzip.decompress(path.read_bytes()))
    lines = [line for plane in space.planes for line in plane.lines]
    starts = sorted(line.timestamp_ns * 1000 + event.offset_ps for line in lines for event in line.events)
    if len(starts) > _EVENTS:
        first = (len(starts) - _EVENTS) // 2 if middle else 0
        _keep(lines, starts[first], starts[first + _EVENTS - 1])
    for plane in space.planes:
        _drop_names(plane)
    return bytes(space.SerializeToString())


def _keep(lines: list[Any], begin: int, end: int) -> None:
    for line in lines:
        kept = [event for event in line.events if begin <= line.timestamp_ns * 1000 + event.offset_ps <= end]
        if len(kept) < len(line.events):
            kept = [type(event).FromString(event.SerializeToString()) for event in kept]
            line.ClearField("events")
            line.events.extend(kept)


def _drop_names(plane: Any) -> None:
    """Drop the names that no event has, but for those of compiled programs that are not large."""
    wanted = {event.metadata_id for line in plane.lines for event in line.events}
    for key, each in list(plane.event_metadata.items()):
        if key not in wanted and (plane.lines or each.ByteSize() > _PROGRAM):
            del plane.event_metadata[key]

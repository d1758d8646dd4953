"""JAX's `ProfileData` as the XSpace it was made of, as far as it still says.

It keeps the events with their times and stats, and no more: the numbers of threads, and the
compiled programs that stand beside names of events, are gone. A warning in the profile says so.
"""

from __future__ import annotations

from typing import Any

from outpace.model.space_builder import Inline, SpaceBuilder, StatValue

_LESS = (
    "read from a jax.profiler.ProfileData, which keeps no compiled programs, so that source lines of ops are unknown; "
    "give the serialized XSpace instead"
)
_PS = 1000  # of a nanosecond


def convert_to_xspace(data: Any) -> bytes:
    """The bytes of an XSpace with the planes, lines, events and stats of a
    `jax.profiler.ProfileData`.
    """
    space = SpaceBuilder("")
    space.errors.append(_LESS)
    for source in data.planes:
        plane = space.plane(source.name)
        for name, value in source.stats:
            plane.stat(name, _value(value))
        for thread in source.lines:
            line = plane.line(thread.name)
            for event in thread.events:
                stats = {str(name): _value(value) for name, value in event.stats}
                line.event(
                    event.name, round(event.start_ns * _PS), round(event.duration_ns * _PS), num_occurrences=None, **stats
                )
    return space.to_bytes()


def _value(value: Any) -> StatValue:
    """A stat as it is written; text stays where it is, since most of it stands once."""
    return Inline(value) if isinstance(value, str) else value

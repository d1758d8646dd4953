# SPDX-License-Identifier: Apache-2.0
"""Conversion of JAX's `ProfileData` to an XSpace, as far as its content allows.

A `ProfileData` has the events with their times and stats, but neither thread numbers nor the
compiled programs that an XSpace stores with the names of events. A warning in the profile says so.
"""

from __future__ import annotations

from typing import Any

from outpace.model.space_builder import Inline, SpaceBuilder, StatValue

_LESS = (
    "read from a jax.profiler.ProfileData, which keeps no compiled programs, so that source lines of ops are unknown; "
    "give the serialized XSpace instead"
)
_PS = 1000  # picoseconds per nanosecond


def convert_to_xspace(data: Any) -> bytes:
    """Return the bytes of an XSpace with the planes, lines, events and stats of a
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
    """Return a stat in the form in which it is written: text inline, since most texts occur
    once.
    """
    return Inline(value) if isinstance(value, str) else value

# SPDX-License-Identifier: Apache-2.0
"""What a profile needs for the page of the memory profile."""

from __future__ import annotations

from outpace.model import Unavailable
from outpace.timeline import Run
from outpace.tools.memory_profile.memory_log import find_sized_events

_REMEDY = (
    "Capture with host tracer level 2 or more (the default of 'outpace profile') while the program allocates: TensorFlow's GPU and CPU "
    "allocators and JAX on GPU and TPU record every allocation. JAX on a CPU records none; jax.profiler.save_device_memory_profile does."
)
_NONE = Unavailable("no memory event was recorded", _REMEDY)
_UNSIZED = Unavailable("the memory events that were recorded do not say how much memory is in use", _REMEDY)


def find_obstacle(run: Run) -> Unavailable | None:
    """Return why there is no page about a run; None where there is one."""
    events = [find_sized_events(timeline) for timeline in run.hosts]
    if any(len(rows) for rows, _ in events):
        return None
    return _UNSIZED if any(unsized for _, unsized in events) else _NONE

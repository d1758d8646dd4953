# SPDX-License-Identifier: Apache-2.0
"""What a profile needs for the page about the memory of programs."""

from __future__ import annotations

from outpace.model import Unavailable
from outpace.timeline import Run

_NONE = Unavailable(
    "the profile holds no compiled program",
    "JAX compiles each jitted function, TensorFlow those with jit_compile=True; the profiler keeps the programs that ran in a capture.",
)


def find_obstacle(run: Run) -> Unavailable | None:
    """Return why there is no page about a run; None where there is one."""
    return None if any(len(timeline.hlo_modules) for timeline in run.hosts) else _NONE

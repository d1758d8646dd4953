# SPDX-License-Identifier: Apache-2.0
"""What a profile needs for the page about Python."""

from __future__ import annotations

from outpace.metrics.facts.python_lines import python_lines
from outpace.model import Unavailable
from outpace.timeline import Run

_NONE = Unavailable(
    "no Python samples were recorded with this profile",
    "Capture with 'outpace profile SCRIPT', which samples the training thread about a hundred times a second.",
)


def find_obstacle(run: Run) -> Unavailable | None:
    """Return why there is no page about a run; None where there is one."""
    return None if len(python_lines(run)) else _NONE

# SPDX-License-Identifier: Apache-2.0
"""What a profile needs for the page about the start-up."""

from __future__ import annotations

from outpace.model import Unavailable
from outpace.timeline import Run

_NONE = Unavailable(
    "the capture did not begin with the script",
    "'outpace profile --startup train.py' captures a script from its start.",
)


def find_obstacle(run: Run) -> Unavailable | None:
    """Return why there is no page about a run; None where there is one."""
    return None if any(record.get("startup") for record in run.records.values()) else _NONE

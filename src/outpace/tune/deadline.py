# SPDX-License-Identifier: Apache-2.0
"""The wait that a user asked for."""

from __future__ import annotations

import time
from dataclasses import field

from outpace._dataclass import dataclass

LEAST_RACE = 4.0  # seconds; a race that is given less proves nothing
FIRST_EPOCH = 15.0  # seconds that caches get to fill


@dataclass(frozen=True)
class Deadline:
    """When the answer is wanted: `seconds` after `began`, by the monotonic clock. All that a tuning
    does is in it: starts of the script, looks, races and comparisons.
    """

    seconds: float
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds until then; negative afterwards."""
        return self.began + self.seconds - time.monotonic()

# SPDX-License-Identifier: Apache-2.0
"""What a race asks of the process of a variant."""

from __future__ import annotations

import dataclasses
import json

from outpace._dataclass import dataclass


@dataclass(frozen=True)
class Plan:
    """How a variant's process runs its script."""

    channel: int  # descriptor of a connection to the race
    keep: str  # folder that is really written to
    module: bool  # whether the script is the name of a module
    first_epoch: float  # seconds that a `fit` gets to end its first epoch before it is timed
    edition: str  # file of an `Edition`; empty for the script as it is

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan that `to_json` wrote."""
        return cls(**json.loads(text))

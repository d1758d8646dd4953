# SPDX-License-Identifier: Apache-2.0
"""What a parent asks of the process that one text of a script runs in."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from outpace._dataclass import dataclass
from outpace.tune.same.clock import ClockSetting
from outpace.tune.same.shown import Items, Shown


@dataclass(frozen=True)
class Surroundings:
    """What a run finds that its script does not say. clock: of its own. draw: which random numbers
    it gets where it gives no seed.
    """

    clock: ClockSetting = ClockSetting()
    draw: int = 0

    @property
    def other(self) -> Surroundings:
        """Surroundings of which all is another."""
        return Surroundings(self.clock.other, self.draw + 1)


@dataclass(frozen=True)
class Plan:
    """One run of a text."""

    script: str
    argv: Sequence[str]
    module: bool  # whether the script is the name of a module
    edition: str  # file of the `Edition`
    result: str  # file that the record goes to
    shown: Shown  # passes that are made
    limit: float  # seconds of the process
    behind: float  # seconds after the training's end
    training: float | None = None  # seconds after its begin; None for all of it
    surveyed: bool = False  # whether the numbers and items of `shown` are looked up
    nudge: int | None = None  # seed of what numbers are changed by
    surroundings: Surroundings = Surroundings()

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan that `to_json` wrote."""
        plan: dict[str, Any] = json.loads(text)
        items = {loop: [Items(**each) for each in runs] for loop, runs in plan["shown"].pop("items").items()}
        around = plan["surroundings"]
        plan["surroundings"] = Surroundings(ClockSetting(**around["clock"]), around["draw"])
        plan["shown"] = Shown(**plan["shown"], items=items)
        return cls(**plan)

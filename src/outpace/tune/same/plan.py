# SPDX-License-Identifier: Apache-2.0
"""What a parent asks of the process that one text of a script runs in."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Sequence
from typing import Any

from outpace._dataclass import dataclass
from outpace.tune.same.clock import ClockSetting
from outpace.tune.same.shown import Items, Shown

_ORDERS = 2**32 - 1  # seeds of hashes, but for 0


@dataclass(frozen=True)
class Surroundings:
    """What a run finds that its script does not say. clock: of its own. draw: which random numbers
    it gets where it gives no seed. order: seed of Python's hashes of texts, by which sets are in
    order.
    """

    clock: ClockSetting = ClockSetting()
    draw: int = 0
    order: int = 0

    def other(self, seconds: float) -> Surroundings:
        """Surroundings of which all is another. seconds: that its clock goes on at least."""
        return Surroundings(self.clock.other(seconds), self.draw + 1, any_order())


def any_order() -> int:
    """Return a seed of hashes, another one in each tuning."""
    return 1 + secrets.randbelow(_ORDERS)


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
        plan["surroundings"] = Surroundings(ClockSetting(**around["clock"]), around["draw"], around["order"])
        plan["shown"] = Shown(**plan["shown"], items=items)
        return cls(**plan)

# SPDX-License-Identifier: Apache-2.0
"""What a parent asks of the process that one text of a script runs in."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from outpace._dataclass import dataclass
from outpace.tune.same.shown import Items, Shown


@dataclass(frozen=True)
class Continuation:
    """A training that runs on behind what was compared: only what compiled functions keep is
    watched, with what it is later.
    """

    known: Sequence[tuple[str, str]]  # (read, function): what the original's functions keep, too
    keeps: Mapping[str, int]  # how much the original keeps, by place
    any_order: bool  # whether examples that are kept may come in another order
    least: float  # seconds of training, after which it is enough to have made so many passes:
    enough: float
    passes: float  # of the training in all; infinite where that is not known


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
    continuation: Continuation | None = None

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan that `to_json` wrote."""
        plan: dict[str, Any] = json.loads(text)
        items = {loop: [Items(**each) for each in runs] for loop, runs in plan["shown"].pop("items").items()}
        plan["shown"] = Shown(**plan["shown"], items=items)
        if plan["continuation"] is not None:
            plan["continuation"] = Continuation(**plan["continuation"])
        return cls(**plan)

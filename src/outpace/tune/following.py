"""What a tuning left out, for want of time or of consent, and may help here: the commands that catch up on it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from outpace.model.report import Command
from outpace.tune.climb.climb import NEAR
from outpace.tune.climb.outcome import USED_UP, Climbed
from outpace.tune.climb.parts import BOUND
from outpace.tune.optimisations import knobs
from outpace.tune.optimisations.optimisation import NeedsConsent

_LONGER = 2  # times the budget


def following(climbed: Climbed, plan: Mapping[str, Any]) -> tuple[Command, ...]:
    """A longer tuning where the budget was used up, and one that allows what was left out, where that may help.

    `plan` holds the script and the options that it was tuned with.
    """
    if plan["only_limits"]:
        return ()
    allowed, asked = ["--allow", "statistical"], plan["asked_budget"]
    found = []
    if late := [tried.title for tried in climbed.tried if tried.reason == USED_UP]:
        longer = ["--budget", f"{_LONGER * plan['budget']:.0f}s"]
        found.append(
            _again(plan, [*allowed * plan["statistical"], *longer], f"has time for what was not raced: {', '.join(late)}")
        )
    if titles := list(worth_allowing(climbed)):
        budget = ["--budget", asked] if asked else []
        found.append(_again(plan, [*allowed, *budget], f"may change results: {', '.join(titles)}"))
    return tuple(found)


def _again(plan: Mapping[str, Any], options: Sequence[str], what: str) -> Command:
    """The same tuning with other options."""
    fit = ["--fit", str(plan["fit"])] if plan["fit"] != 1 else []
    module = ["-m"] * plan["module"]
    return Command(shlex.join(["outpace", "tune", *options, *fit, *module, plan["script"], *plan["argv"]]), what)


def worth_allowing(climbed: Climbed) -> Iterator[str]:
    """Titles of what was left out and is about the part of the program that holds it back, as far as that is known."""
    model_options = {knob.id for knob in knobs() if not knob.reads}
    limits = climbed.reached or climbed.limits
    ratio = limits.model_ratio if limits is not None else None
    for tried in climbed.tried:
        if tried.decision != NeedsConsent.word:
            continue
        if ratio is None or (ratio.low <= BOUND if tried.id in model_options else ratio.high >= 1 / NEAR):
            yield tried.title

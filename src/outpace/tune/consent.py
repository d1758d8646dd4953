"""Optimisations that a tuning left out because they may change results: which of them may help here, and the command that allows them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from outpace.model.report import Command
from outpace.tune.climb.climb import NEAR
from outpace.tune.climb.outcome import OPT_IN, Climbed
from outpace.tune.climb.parts import BOUND
from outpace.tune.knobs import knobs


def following(climbed: Climbed, plan: Mapping[str, Any]) -> tuple[Command, ...]:
    """The command that allows what was left out, where that may help; `plan` holds the script and the options that it was tuned with."""
    titles = list(worth_allowing(climbed))
    if not titles or plan["only_limits"]:
        return ()
    words = ["outpace", "tune", "--allow", "statistical"]
    words += [] if plan["fit"] == 1 else ["--fit", str(plan["fit"])]
    words += ["--budget", plan["asked_budget"]] if plan["asked_budget"] else []
    words += ["-m"] * plan["module"]
    return (Command(shlex.join([*words, plan["script"], *plan["argv"]]), f"may change results: {', '.join(titles)}"),)


def worth_allowing(climbed: Climbed) -> Iterator[str]:
    """Titles of what was left out and is about the part of the program that holds it back, as far as that is known."""
    model_options = {knob.id for knob in knobs() if not knob.reads}
    limits = climbed.reached or climbed.limits
    ratio = limits.model_ratio if limits is not None else None
    for tried in climbed.tried:
        if tried.decision != OPT_IN:
            continue
        if ratio is None or (ratio.low <= BOUND if tried.id in model_options else ratio.high >= 1 / NEAR):
            yield tried.title

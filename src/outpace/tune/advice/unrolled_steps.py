"""Several steps of a call, unrolled."""

from __future__ import annotations

from outpace.tune.advice.advice import KERAS, Advice
from outpace.tune.advice.facts import Facts


def advise(facts: Facts) -> Advice | None:
    """Where calls of several steps drive a GPU."""
    if facts.steps_per_call < 2 or not facts.gpus:
        return None
    return Advice(
        "unrolled_steps",
        "Unrolled steps in a call",
        f"model.unrolled_steps_per_execution unrolls the loop over the {facts.steps_per_call} steps of a call, which may save launches.",
        "The graph grows by the steps that are unrolled, in memory and in the time to build it, and on CPUs there is no launch to save.",
        KERAS,
    )

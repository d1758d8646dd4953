"""Distillation: a small model learns from a large one."""

from __future__ import annotations

from outpace.tune.advice.advice import SPEED, Advice
from outpace.tune.advice.facts import Facts

LARGE = 1_000_000  # parameters; below, there is little to make smaller


def advise(facts: Facts) -> Advice | None:
    """Where the model is large enough to teach."""
    if facts.parameters < LARGE:
        return None
    return Advice(
        "distillation",
        "Distillation",
        f"A smaller model could be trained on the answers of this one, which has {facts.parameters:,} trainable parameters.",
        "It trains a second model after this one, with the first one's forward pass in each of its steps: it pays at inference.",
        SPEED,
    )

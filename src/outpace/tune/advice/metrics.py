"""Metrics that every step computes."""

from __future__ import annotations

from outpace.model.units import counted
from outpace.tune.advice.advice import PROFILER, Advice, listed
from outpace.tune.advice.facts import Facts


def advise(facts: Facts) -> Advice | None:
    """Where metrics are compiled into the training step."""
    if not facts.metrics:
        return None
    return Advice(
        "metrics",
        "Metrics every few steps",
        f"Each training step updates {counted(len(facts.metrics), 'metric')} besides the loss ({listed(list(facts.metrics))}).",
        "What fit returns, and what callbacks such as EarlyStopping watch, would change: whether a metric is needed in each step, only its "
        "reader knows. Metrics of the validation alone cost the training step nothing.",
        PROFILER,
    )

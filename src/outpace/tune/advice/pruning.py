"""Pruning: weights that matter least become zero."""

from __future__ import annotations

from outpace.model.units import counted
from outpace.tune.advice.advice import SPEED, Advice
from outpace.tune.advice.facts import Facts


def advise(facts: Facts) -> Advice | None:
    """Where there are kernels to prune."""
    kernels = [layer for layer in facts.layers if layer.kernel is not None]
    if not kernels:
        return None
    return Advice(
        "pruning",
        "Pruning",
        f"The kernels of {counted(len(kernels), 'layer')} could be pruned; it makes the stored model smaller, and inference faster where "
        "sparse kernels exist.",
        "A training step becomes no faster: dense kernels multiply zeros too, and pruning adds masks to each step.",
        SPEED,
    )

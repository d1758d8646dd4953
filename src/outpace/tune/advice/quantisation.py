"""Quantisation: weights in 8 bits."""

from __future__ import annotations

from outpace.model.units import Unit, humanize
from outpace.tune.advice.advice import SPEED, Advice
from outpace.tune.advice.facts import Facts


def advise(facts: Facts) -> Advice | None:
    """Where there are kernels to quantise."""
    if not any(layer.kernel is not None for layer in facts.layers):
        return None
    now, then = humanize(float(facts.parameter_bytes), Unit.BYTES), humanize(float(facts.parameters), Unit.BYTES)
    return Advice(
        "quantisation",
        "Quantisation",
        f"The trainable variables take {now}, and would take {then} in 8 bits: model.quantize('int8') after the training, for inference.",
        "Gradients need more than 8 bits: it pays at inference. In training 16 bits are what mixed precision tries.",
        SPEED,
    )

"""The layout of images: channels last."""

from __future__ import annotations

from outpace.model.units import counted
from outpace.tune.advice.advice import PROFILER, Advice, listed
from outpace.tune.advice.facts import Facts


def advise(facts: Facts) -> Advice | None:
    """Where layers have channels first."""
    first = [layer for layer in facts.layers if layer.config.get("data_format") == "channels_first"]
    if not first:
        return None
    names = [layer.name for layer in first]
    pooling = sum("Pooling" in layer.kind and "Global" not in layer.kind for layer in first)
    cost = (
        f" On a CPU Keras puts {2 * pooling} transposes around {counted(pooling, 'pooling layer')} of them." if pooling else ""
    )
    return Advice(
        "channels_last",
        "Channels last (NHWC)",
        f"Channels come first in {counted(len(names), 'layer')} ({listed(names)}).{cost}",
        "The input's layout has to change with the layers', also where the data are stored, and axes that the program names (those of "
        "BatchNormalization, Concatenate, Reshape) with them.",
        PROFILER,
    )

"""Depthwise separable convolutions in the place of full ones."""

from __future__ import annotations

from outpace.model.units import Unit, counted, humanize
from outpace.tune.advice.advice import SPEED, Advice, listed
from outpace.tune.advice.facts import COUNTED, Facts, Layer


def advise(facts: Facts) -> Advice | None:
    """Where Conv2D layers see several pixels of all channels at once, with the multiply-adds before and after.

    Per place of the output a k x k convolution of Cin to Cout channels makes k*k*Cin*Cout multiply-adds; a depthwise separable one makes
    k*k*Cin for each channel by itself, and Cin*Cout to mix them.
    """
    layers = [layer for layer in facts.layers if _full(layer) and separable(layer) < whole(layer)]
    if not layers:
        return None
    names = listed([layer.name for layer in layers])
    fewer = sum(whole(layer) for layer in layers) / sum(separable(layer) for layer in layers)
    sentence = (
        f"{counted(len(layers), 'Conv2D layer')} ({names}) could be SeparableConv2D, with {fewer:.1f} times fewer weights"
        f"{_saving(facts, layers)}."
    )
    return Advice(
        "depthwise_separable",
        "Depthwise separable convolutions",
        sentence,
        "It is another architecture, which must be trained and judged anew; and depthwise convolutions use the hardware less well than "
        "full ones, so that time falls by less than multiply-adds.",
        SPEED,
    )


def whole(layer: Layer) -> int:
    """Multiply-adds of the convolution per place of its output."""
    height, width, channels, filters = layer.kernel or (0, 0, 0, 0)
    return height * width * channels * filters


def separable(layer: Layer) -> int:
    """Multiply-adds of a depthwise separable one in its place."""
    height, width, channels, filters = layer.kernel or (0, 0, 0, 0)
    return height * width * channels + channels * filters


def _full(layer: Layer) -> bool:
    kernel = layer.kernel
    return layer.kind == "Conv2D" and kernel is not None and kernel[0] * kernel[1] > 1 and layer.config.get("groups", 1) == 1


def _saving(facts: Facts, layers: list[Layer]) -> str:
    """The most that the step could save, if time followed multiply-adds; nothing where a shape is not known."""
    counted = [layer for layer in facts.layers if layer.kind in COUNTED]
    if any(layer.work is None for layer in counted):
        return ""
    total = sum(layer.work or 0 for layer in counted)
    saved = sum((layer.positions or 0) * (whole(layer) - separable(layer)) for layer in layers)
    share = saved / total
    time = f", {_time(share * facts.step_seconds)} of {_time(facts.step_seconds)}" if facts.step_seconds else ""
    return (
        f"; of the {total:,} multiply-adds per example that convolutions and dense layers make in the forward pass, {total - saved:,} would be "
        f"left, so that a step could save {share:.0%} of its time at most, if time follows them{time}"
    )


def _time(seconds: float) -> str:
    return humanize(1e12 * seconds, Unit.PS)

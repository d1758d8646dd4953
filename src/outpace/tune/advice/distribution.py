"""Training on several devices."""

from __future__ import annotations

from outpace.model.units import Unit, humanize
from outpace.tune.advice.advice import EFFICIENT, Advice
from outpace.tune.advice.facts import Facts

LINKS = (10e9, 100e9)  # bytes per second that examples are given for: about PCIe 3.0 x16, and several links of NVLink


def advise(facts: Facts) -> Advice | None:
    """For one device that trains as fast as its model allows; and where devices are visible that no strategy uses."""
    if facts.replicas > 1 or (facts.input_bound and facts.gpus < 2):
        return None
    return Advice(
        "distribution",
        "Several devices (tf.distribute.Strategy)",
        f"{_visible(facts)} {_model(facts)}",
        "It changes the program (the model is made in the strategy's scope) and the batch of each device, and with a larger batch in all "
        "also the learning rate; the links between devices cannot be measured before there are several.",
        EFFICIENT,
    )


def scaled(step_seconds: float, gradient_bytes: float, devices: int, bandwidth: float) -> float:
    """Seconds of a step over one batch that `devices` share, where nothing overlaps: compute / N, and a ring all-reduce.

    In a ring each device sends 2 (N - 1) / N times the gradients' bytes over links of `bandwidth` bytes per second.
    """
    return step_seconds / devices + 2 * (devices - 1) / devices * gradient_bytes / bandwidth


def least_bandwidth(step_seconds: float, gradient_bytes: float) -> float:
    """Bytes per second from which several devices are faster than one.

    step / N + 2 (N - 1) / N * bytes / bandwidth < step, both sides times N / (N - 1): 2 * bytes / bandwidth < step, for every N.
    """
    return 2 * gradient_bytes / step_seconds


def _visible(facts: Facts) -> str:
    if facts.gpus < 2:
        return f"{'One GPU is' if facts.gpus else 'No GPU is'} visible here."
    waiting = (
        " The input is slower than the model already, so that more devices would wait for it." if facts.input_bound else ""
    )
    return f"{facts.gpus} GPUs are visible, and the model trains on one.{waiting}"


def _model(facts: Facts) -> str:
    size = humanize(float(facts.parameter_bytes), Unit.BYTES)
    if facts.step_seconds is None:
        return (
            f"A step takes compute / N + 2 (N - 1) / N * {size} / bandwidth on N devices, so that it pays where links carry more than "
            f"2 * {size} in the time of one step."
        )
    devices = max(2, facts.gpus)
    least = humanize(least_bandwidth(facts.step_seconds, facts.parameter_bytes), Unit.BYTES_PER_S)
    gains = [facts.step_seconds / scaled(facts.step_seconds, facts.parameter_bytes, devices, link) for link in LINKS]
    given = " and ".join(
        f"{gain:.2f} times at {humanize(link, Unit.BYTES_PER_S)}" for gain, link in zip(gains, LINKS, strict=True)
    )
    return (
        f"A step of {humanize(1e12 * facts.step_seconds, Unit.PS)} with {size} of gradients pays on several devices where their links carry "
        f"more than {least}; by the model compute / N + all-reduce, {devices} devices would be {given} as fast."
    )

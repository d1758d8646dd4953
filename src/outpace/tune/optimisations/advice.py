# SPDX-License-Identifier: Apache-2.0
"""Practices that are told of a program that they fit, and not tried: one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from outpace._dataclass import dataclass
from outpace.model.units import Unit, format_count, humanize
from outpace.tune.optimisations.facts import Facts, Layer


@dataclass(frozen=True)
class Advice:
    """One practice that fits a program.

    sentence: what it would mean here, with numbers of this program. reason: why it is advice and no
    trial. source: the text that names it.
    """

    id: str
    title: str
    sentence: str
    reason: str
    source: str


@dataclass(frozen=True)
class Practice:
    """A row of the table. fits: whether it is for a program; said: what it would mean for it."""

    id: str
    title: str
    fits: Callable[[Facts], object]
    said: Callable[[Facts], str]
    reason: str
    source: str


def advice_on(facts: Facts) -> tuple[Advice, ...]:
    """What fits a program of which these facts are known."""
    return tuple(
        Advice(each.id, each.title, each.said(facts), each.reason, each.source) for each in PRACTICES if each.fits(facts)
    )


def listed(names: list[str], shown: int = 4) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def least_bandwidth(step_seconds: float, gradient_bytes: float) -> float:
    """Bytes per second from which several devices that share a batch are faster than one, where
    nothing overlaps.

    In a ring each of N devices sends 2 (N - 1) / N times the gradients' bytes: step / N + 2 (N - 1)
    / N * bytes / bandwidth < step, both sides times N / (N - 1): 2 * bytes / bandwidth < step, for
    every N.
    """
    return 2 * gradient_bytes / step_seconds


def _full(facts: Facts) -> list[Layer]:
    """Conv2D layers that would have fewer weights if they were depthwise separable ones."""
    found = [layer for layer in facts.layers if layer.kind == "Conv2D" and layer.groups == 1]
    return [layer for layer in found if _separable(layer) < _whole(layer)]


def _whole(layer: Layer) -> int:
    """Weights of a k x k convolution of Cin to Cout channels: k * k * Cin * Cout."""
    return math.prod(layer.kernel or (0,))


def _separable(layer: Layer) -> int:
    """Of a depthwise separable one: k * k * Cin for each channel by itself, and Cin * Cout to mix
    them.
    """
    height, width, channels, filters = layer.kernel or (0, 0, 0, 0)
    return height * width * channels + channels * filters


def _fewer(layers: Sequence[Layer]) -> float:
    return sum(map(_whole, layers)) / sum(map(_separable, layers))


def _kernels(facts: Facts) -> list[Layer]:
    return [layer for layer in facts.layers if layer.kernel is not None]


def _first(facts: Facts) -> list[str]:
    return [layer.name for layer in facts.layers if layer.channels_first]


def _idle(facts: Facts) -> list[str]:
    return [layer.name for layer in facts.layers if layer.idle_bias]


def _in_32_bits(facts: Facts) -> list[Layer]:
    """Layers with a kernel that compute in float32, where no layer computes in 16 bits."""
    mixed = any("16" in layer.dtype for layer in facts.layers)
    return [layer for layer in _kernels(facts) if layer.dtype == "float32" and not mixed]


def _devices(facts: Facts) -> str:
    if facts.gpus < 2:
        visible = f"{'One GPU is' if facts.gpus else 'No GPU is'} visible here."
    else:
        visible = f"{facts.gpus} GPUs are visible, and the model trains on one."
        visible += " The input is slower than the model already, so that more devices would wait for it." * bool(
            facts.input_bound
        )
    size = humanize(float(facts.parameter_bytes), Unit.BYTES)
    if facts.step_seconds is None:
        return f"{visible} Several devices pay where their links carry more than 2 * {size} in the time of one step."
    step = humanize(1e12 * facts.step_seconds, Unit.PS)
    least = humanize(least_bandwidth(facts.step_seconds, facts.parameter_bytes), Unit.BYTES_PER_S)
    return f"{visible} A step of {step} with {size} of gradients pays on several devices where their links carry more than {least}."


SPEED = "How can I speed up TensorFlow training? (2025)"
PROFILER = "TensorFlow's guide: Optimize TensorFlow performance using the Profiler"
EFFICIENT = "How can TensorFlow programs be efficiently optimized? (2025)"
KERAS = "Keras, keras/src/backend/tensorflow/trainer.py"
DATA = "TensorFlow's guide: Better performance with the tf.data API"
JAX = "JAX's documentation: Asynchronous dispatch"
LARGE = 1_000_000  # parameters; below, there is little to make smaller
PRACTICES = (
    Practice(
        "any_order",
        "Hand elements over in any order",
        lambda facts: facts.keeps_order,
        lambda facts: f"{facts.keeps_order} waits for its slowest call to keep the order: options.deterministic = False.",
        "No two runs read the same then, and it gains where elements take very different times.",
        DATA,
    ),
    Practice(
        "batches_ahead",
        "Batches made ahead",
        lambda facts: facts.batches_between,
        lambda facts: (
            "Each batch is made in Python while the device waits for it: make the next ones in a thread, and jax.device_put them."
        ),
        "It gains where making a batch takes long, and a thread costs more than it gives where it does not.",
        JAX,
    ),
    Practice(
        "channels_last",
        "Channels last (NHWC)",
        _first,
        lambda facts: f"Channels come first in {format_count(len(_first(facts)), 'layer')} ({listed(_first(facts))}).",
        "The input's layout has to change with the layers', also where the data are stored, and axes that the program names (those of "
        "BatchNormalization, Concatenate, Reshape) with them.",
        PROFILER,
    ),
    Practice(
        "conv_bias",
        "No bias before batch normalisation",
        _idle,
        lambda facts: f"The batch normalisation after them subtracts the bias again: use_bias=False on {listed(_idle(facts))}.",
        "It usually gains a few per cent, and changes the layout of saved weights.",
        PROFILER,
    ),
    Practice(
        "dali",
        "NVIDIA DALI",
        lambda facts: facts.gpus and facts.input_bound and facts.decodes_jpeg,
        lambda facts: "The input decodes JPEG files on the CPU and is slower than the model; DALI can decode them on the GPU.",
        "It is another library with operations of its own, so the pipeline has to be rewritten; first see what caching and "
        "parallel decoding reach.",
        PROFILER,
    ),
    Practice(
        "depthwise_separable",
        "Depthwise separable convolutions",
        _full,
        lambda facts: (
            f"{format_count(len(_full(facts)), 'Conv2D layer')} ({listed([layer.name for layer in _full(facts)])}) could be SeparableConv2D, "
            f"with {_fewer(_full(facts)):.1f} times fewer weights."
        ),
        "It is another architecture, which must be trained and judged anew; and depthwise convolutions use the hardware less well than "
        "full ones, so that time falls by less than multiply-adds.",
        SPEED,
    ),
    Practice(
        "distillation",
        "Distillation",
        lambda facts: facts.parameters >= LARGE,
        lambda facts: (
            f"A smaller model could be trained on the answers of this one, which has {facts.parameters:,} trainable parameters."
        ),
        "It trains a second model after this one, with the first one's forward pass in each of its steps: it pays at inference.",
        SPEED,
    ),
    Practice(
        "distribution",
        "Several devices (tf.distribute.Strategy)",
        lambda facts: facts.parameters and facts.replicas < 2 and (facts.gpus > 1 or not facts.input_bound),
        _devices,
        "It changes the program (the model is made in the strategy's scope) and the batch of each device, and with a larger batch in all "
        "also the learning rate; the links between devices cannot be measured before there are several.",
        EFFICIENT,
    ),
    Practice(
        "keep_uint8",
        "Keep bytes until after spatial augmentation",
        lambda facts: facts.casts_early,
        lambda facts: f"{facts.casts_early} casts bytes to floats and then moves pixels: casting afterwards moves fewer bytes.",
        "What stands between the two may round, so that exchanging them is left to you.",
        PROFILER,
    ),
    Practice(
        "metrics",
        "Metrics every few steps",
        lambda facts: facts.metrics,
        lambda facts: (
            f"Each training step updates {format_count(len(facts.metrics), 'metric')} besides the loss ({listed(list(facts.metrics))})."
        ),
        "What fit returns, and what callbacks such as EarlyStopping watch, would change: whether a metric is needed in each step, only its "
        "reader knows. Metrics of the validation alone cost the training step nothing.",
        PROFILER,
    ),
    Practice(
        "mixed_precision",
        "Mixed precision",
        _in_32_bits,
        lambda facts: (
            f"{format_count(len(_in_32_bits(facts)), 'layer computes', 'layers compute')} in float32: "
            'keras.mixed_precision.set_global_policy("mixed_bfloat16") before the model is made, or "mixed_float16", which scales the loss.'
        ),
        "The numbers change by rounding, and hardware without units for 16 bits is slower.",
        SPEED,
    ),
    Practice(
        "pruning",
        "Pruning",
        _kernels,
        lambda facts: (
            f"The kernels of {format_count(len(_kernels(facts)), 'layer')} could be pruned; it makes the stored model smaller, and inference "
            "faster where sparse kernels exist."
        ),
        "A training step becomes no faster: dense kernels multiply zeros too, and pruning adds masks to each step.",
        SPEED,
    ),
    Practice(
        "quantisation",
        "Quantisation",
        _kernels,
        lambda facts: (
            f"The trainable variables take {humanize(float(facts.parameter_bytes), Unit.BYTES)}, and would take "
            f"{humanize(float(facts.parameters), Unit.BYTES)} in 8 bits: model.quantize('int8') after the training, for inference."
        ),
        "Gradients need more than 8 bits: it pays at inference. In training, mixed precision computes in 16.",
        SPEED,
    ),
    Practice(
        "unrolled_steps",
        "Unrolled steps in a call",
        lambda facts: facts.gpus and facts.steps_per_call > 1,
        lambda facts: (
            f"model.unrolled_steps_per_execution unrolls the loop over the {facts.steps_per_call} steps of a call, which may save launches."
        ),
        "The graph grows by the steps that are unrolled, in memory and in the time to build it, and on CPUs there is no launch to save.",
        KERAS,
    ),
)

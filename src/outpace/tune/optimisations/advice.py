"""Practices that are explained for a program, and not tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from outpace._dataclass import dataclass
from outpace.model.units import Unit, counted, humanize
from outpace.tune.optimisations.facts import COUNTED, Facts, Layer
from outpace.tune.optimisations.optimisation import Answer, Explained, NotApplicable, Optimisation

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Advice:
    """One practice that fits a program.

    sentence: what it would mean here, with numbers of this program. reason: why it is advice and no trial. source: the text that names it.
    """

    id: str
    title: str
    sentence: str
    reason: str
    source: str


SPEED = "How can I speed up TensorFlow training? (2025)"
PROFILER = "TensorFlow's guide: Optimize TensorFlow performance using the Profiler"
EFFICIENT = "How can TensorFlow programs be efficiently optimized? (2025)"
KERAS = "Keras, keras/src/backend/tensorflow/trainer.py"


def listed(names: list[str], shown: int = 4) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


class Advised(Optimisation[Facts]):
    """One practice that is explained and not tried; `said`: what it would mean for a program, None where it does not fit it."""

    def __init__(self, id: str, title: str, said: Callable[[Facts], str | None], reason: str, source: str) -> None:
        self.id, self.title, self.practice, self.reason, self.source = id, title, title, reason, source
        self._said = said

    def applies(self, facts: Facts, /) -> Answer:
        """Never more than an explanation."""
        said = self._said(facts)
        return NotApplicable("nothing in this program calls for it") if said is None else Explained(said, self.reason)


def advice_on(facts: Facts) -> tuple[Advice, ...]:
    """What fits a program of which these facts are known."""
    found = ((each, each.applies(facts)) for each in OPTIMISATIONS)
    return tuple(
        Advice(each.id, each.title, answer.sentence, answer.reason, each.source)
        for each, answer in found
        if isinstance(answer, Explained)
    )


def _channels_last(facts: Facts) -> str | None:
    """Where layers have channels first."""
    first = [layer for layer in facts.layers if layer.config.get("data_format") == "channels_first"]
    if not first:
        return None
    names = [layer.name for layer in first]
    pooling = sum("Pooling" in layer.kind and "Global" not in layer.kind for layer in first)
    cost = (
        f" On a CPU Keras puts {2 * pooling} transposes around {counted(pooling, 'pooling layer')} of them." if pooling else ""
    )
    return f"Channels come first in {counted(len(names), 'layer')} ({listed(names)}).{cost}"


def _dali(facts: Facts) -> str | None:
    """Where a GPU waits for an input that decodes JPEG files."""
    if not (facts.gpus and facts.input_bound and facts.decodes_jpeg):
        return None
    return "The input decodes JPEG files on the CPU and is slower than the model; DALI can decode them on the GPU."


def _depthwise_separable(facts: Facts) -> str | None:
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
    return sentence


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


LARGE = 1_000_000  # parameters; below, there is little to make smaller


def _distillation(facts: Facts) -> str | None:
    """Where the model is large enough to teach."""
    if facts.parameters < LARGE:
        return None
    return f"A smaller model could be trained on the answers of this one, which has {facts.parameters:,} trainable parameters."


LINKS = (10e9, 100e9)  # bytes per second that examples are given for: about PCIe 3.0 x16, and several links of NVLink


def _distribution(facts: Facts) -> str | None:
    """For one device that trains as fast as its model allows; and where devices are visible that no strategy uses."""
    if facts.replicas > 1 or (facts.input_bound and facts.gpus < 2):
        return None
    return f"{_visible(facts)} {_speed_on_several(facts)}"


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


def _speed_on_several(facts: Facts) -> str:
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


def _metrics(facts: Facts) -> str | None:
    """Where metrics are compiled into the training step."""
    if not facts.metrics:
        return None
    return (
        f"Each training step updates {counted(len(facts.metrics), 'metric')} besides the loss ({listed(list(facts.metrics))})."
    )


def _pruning(facts: Facts) -> str | None:
    """Where there are kernels to prune."""
    kernels = [layer for layer in facts.layers if layer.kernel is not None]
    if not kernels:
        return None
    return (
        f"The kernels of {counted(len(kernels), 'layer')} could be pruned; it makes the stored model smaller, and inference faster where "
        "sparse kernels exist."
    )


def _quantisation(facts: Facts) -> str | None:
    """Where there are kernels to quantise."""
    if not any(layer.kernel is not None for layer in facts.layers):
        return None
    now, then = humanize(float(facts.parameter_bytes), Unit.BYTES), humanize(float(facts.parameters), Unit.BYTES)
    return f"The trainable variables take {now}, and would take {then} in 8 bits: model.quantize('int8') after the training, for inference."


def _unrolled_steps(facts: Facts) -> str | None:
    """Where calls of several steps drive a GPU."""
    if facts.steps_per_call < 2 or not facts.gpus:
        return None
    return f"model.unrolled_steps_per_execution unrolls the loop over the {facts.steps_per_call} steps of a call, which may save launches."


OPTIMISATIONS = (
    Advised(
        "channels_last",
        "Channels last (NHWC)",
        _channels_last,
        "The input's layout has to change with the layers', also where the data are stored, and axes that the program names (those of "
        "BatchNormalization, Concatenate, Reshape) with them.",
        PROFILER,
    ),
    Advised(
        "dali",
        "NVIDIA DALI",
        _dali,
        "It is another library with operations of its own, so the pipeline has to be rewritten; first see what caching and "
        "parallel decoding reach.",
        PROFILER,
    ),
    Advised(
        "depthwise_separable",
        "Depthwise separable convolutions",
        _depthwise_separable,
        "It is another architecture, which must be trained and judged anew; and depthwise convolutions use the hardware less well than "
        "full ones, so that time falls by less than multiply-adds.",
        SPEED,
    ),
    Advised(
        "distillation",
        "Distillation",
        _distillation,
        "It trains a second model after this one, with the first one's forward pass in each of its steps: it pays at inference.",
        SPEED,
    ),
    Advised(
        "distribution",
        "Several devices (tf.distribute.Strategy)",
        _distribution,
        "It changes the program (the model is made in the strategy's scope) and the batch of each device, and with a larger batch in all "
        "also the learning rate; the links between devices cannot be measured before there are several.",
        EFFICIENT,
    ),
    Advised(
        "metrics",
        "Metrics every few steps",
        _metrics,
        "What fit returns, and what callbacks such as EarlyStopping watch, would change: whether a metric is needed in each step, only its "
        "reader knows. Metrics of the validation alone cost the training step nothing.",
        PROFILER,
    ),
    Advised(
        "pruning",
        "Pruning",
        _pruning,
        "A training step becomes no faster: dense kernels multiply zeros too, and pruning adds masks to each step.",
        SPEED,
    ),
    Advised(
        "quantisation",
        "Quantisation",
        _quantisation,
        "Gradients need more than 8 bits: it pays at inference. In training 16 bits are what mixed precision tries.",
        SPEED,
    ),
    Advised(
        "unrolled_steps",
        "Unrolled steps in a call",
        _unrolled_steps,
        "The graph grows by the steps that are unrolled, in memory and in the time to build it, and on CPUs there is no launch to save.",
        KERAS,
    ),
)

"""What advice is drawn from: plain values of a program's layers, devices and limits."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.tune.data.tree import describe
from outpace.tune.program.state import layers_of

if TYPE_CHECKING:
    from outpace.tune.climb.limits import Limits
    from outpace.tune.program.program import Program

COUNTED = ("Conv1D", "Conv2D", "Conv3D", "DepthwiseConv1D", "DepthwiseConv2D", "Dense")  # their kernels are used once per place
_DECODES = ("DecodeJpeg", "DecodeAndCropJpeg", "DecodeImage")


@dataclass(frozen=True)
class Layer:
    """One layer: its name and class, settings, the shape of its kernel, and of its output without the batch (None: not known)."""

    name: str
    kind: str
    config: Mapping[str, Any]
    kernel: tuple[int, ...] | None = None
    output: tuple[int | None, ...] | None = None

    @property
    def positions(self) -> int | None:
        """Places per example at which a convolution or dense layer applies its kernel; None where the shapes are not known."""
        if self.output is None:
            return None
        first = self.config.get("data_format") == "channels_first"
        places = self.output[1:] if first else self.output[:-1]
        return None if None in places else math.prod(place for place in places if place is not None)

    @property
    def work(self) -> int | None:
        """Multiply-adds per example in the forward pass, of convolutions and dense layers; None for others, and where shapes are not known."""
        if self.kernel is None or self.positions is None or self.kind not in COUNTED:
            return None
        return self.positions * math.prod(self.kernel)


@dataclass(frozen=True)
class Facts:
    """A program in plain values.

    parameters, parameter_bytes: of trainable variables. metrics: classes of compiled metrics, without the loss. gpus: visible ones.
    replicas: in the model's distribution strategy. decodes_jpeg: whether the input pipeline does.
    step_seconds: of one training step on data in memory; input_bound: whether the input alone is slower than that; None: not measured.
    """

    layers: tuple[Layer, ...] = ()
    parameters: int = 0
    parameter_bytes: int = 0
    metrics: tuple[str, ...] = ()
    gpus: int = 0
    replicas: int = 1
    steps_per_call: int = 1
    decodes_jpeg: bool = False
    step_seconds: float | None = None
    input_bound: bool | None = None

    def within(self, limits: Limits | None) -> Facts:
        """The same with what limits say (steps per second), where they were measured."""
        if limits is None or math.isnan(limits.input + limits.model) or limits.model <= 0:
            return self
        return replace(self, step_seconds=1 / limits.model, input_bound=limits.input < limits.model)


def facts_of(program: Program) -> Facts:
    """The facts of a program; nothing was measured yet."""
    model = program.model
    variables = model.trainable_variables
    return Facts(
        layers=tuple(_layer(layer) for layer in layers_of(model)),
        parameters=sum(math.prod(variable.shape) for variable in variables),
        parameter_bytes=sum(math.prod(v.shape) * sys.modules["tensorflow"].as_dtype(v.dtype).size for v in variables),
        metrics=_metrics(model),
        gpus=len(sys.modules["tensorflow"].config.list_physical_devices("GPU")),
        replicas=model.distribute_strategy.num_replicas_in_sync,
        steps_per_call=program.steps_per_call,
        decodes_jpeg=program.own_pipeline and _decodes(program.dataset),
    )


def _layer(layer: Any) -> Layer:
    kernel = getattr(layer, "kernel", None) if layer.built else None
    shape = tuple(int(size) for size in kernel.shape) if kernel is not None else None
    return Layer(layer.name, type(layer).__name__, _config(layer), shape, _output(layer))


def _config(layer: Any) -> dict[str, Any]:
    """Those of its attributes that advice asks for: `get_config` of a user's own layer may fail."""
    names = ("data_format", "groups", "strides", "dilation_rate")
    return {name: getattr(layer, name) for name in names if hasattr(layer, name)}


def _output(layer: Any) -> tuple[int | None, ...] | None:
    try:
        return tuple(layer.output.shape)[1:]
    except (
        AttributeError,
        ValueError,
        RuntimeError,
    ):  # not called in a graph of layers, or more than once, or with several outputs
        return None


def _metrics(model: Any) -> tuple[str, ...]:
    """Metrics that each step updates, besides the mean of the loss."""
    means = {id(metric) for metric in (getattr(model, "_loss_tracker", None), getattr(model, "_compile_loss", None))}
    found = [inner for metric in model.metrics for inner in getattr(metric, "metrics", None) or (metric,)]
    return tuple(type(metric).__name__ for metric in found if id(metric) not in means and metric.name != "loss")


def _decodes(dataset: Any) -> bool:
    """Whether a function of the pipeline decodes JPEG, as far as its graph shows."""
    for stage in describe(dataset).stages():
        wrapper = getattr(stage.dataset, "_map_func", None)
        graph = getattr(getattr(wrapper, "function", None), "graph", None)
        if graph is not None and _decodes_in(graph):
            return True
    return False


def _decodes_in(graph: Any) -> bool:
    definition = graph.as_graph_def()
    functions = [node for function in definition.library.function for node in function.node_def]
    return any(node.op in _DECODES for node in (*definition.node, *functions))

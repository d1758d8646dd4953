# SPDX-License-Identifier: Apache-2.0
"""What advice is drawn from: plain values of a program's layers, input, devices and limits."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.frameworks.keras import LOSS_METRICS, READERS, layers_of
from outpace.frameworks.tensorflow import MAP_FUNCTION
from outpace.tune.data.tree import Pipeline, describe
from outpace.tune.purity.traced import called, nodes_of

if TYPE_CHECKING:
    from outpace.tune.climb.limits import Limits
    from outpace.tune.program.program import Program

_DECODES = {"DecodeJpeg", "DecodeAndCropJpeg", "DecodeImage"}
_MOVES_PIXELS = {"ReverseV2", "Transpose", "Slice", "StridedSlice", "CropAndResize", "PadV2", "Pad", "MirrorPad"}


@dataclass(frozen=True)
class Layer:
    """One layer: its name and class, the shape of its kernel (None: it has none), the type that it
    computes in, and how it was made.

    idle_bias: whether nothing but batch normalisations, which subtract it again, reads what it adds
    a bias to.
    """

    name: str
    kind: str
    kernel: tuple[int, ...] | None = None
    dtype: str = "float32"
    channels_first: bool = False
    groups: int = 1
    idle_bias: bool = False


@dataclass(frozen=True)
class Facts:
    """A program in plain values.

    parameters, parameter_bytes: of trainable variables. metrics: classes of compiled metrics,
    without the loss. gpus: visible ones. replicas: in the model's distribution strategy.
    decodes_jpeg: whether the input pipeline does. casts_early: the stage of it that casts bytes to
    floats and then moves pixels; keeps_order: that waits for its slowest call; empty for none.
    batches_between: whether a loop of JAX makes its batches in Python between its steps.
    step_seconds: of one training step on data in memory; input_bound: whether the input alone is
    slower than that; None: not measured.
    """

    layers: tuple[Layer, ...] = ()
    parameters: int = 0
    parameter_bytes: int = 0
    metrics: tuple[str, ...] = ()
    gpus: int = 0
    replicas: int = 1
    steps_per_call: int = 1
    decodes_jpeg: bool = False
    casts_early: str = ""
    keeps_order: str = ""
    batches_between: bool = False
    step_seconds: float | None = None
    input_bound: bool | None = None

    def within(self, limits: Limits | None) -> Facts:
        """The same with what limits say (steps per second), where they were measured."""
        if limits is None or math.isnan(limits.input + limits.model) or limits.model <= 0:
            return self
        return replace(self, step_seconds=1 / limits.model, input_bound=limits.input < limits.model)


def facts_of(program: Program) -> Facts:
    """The facts of a program; nothing was measured yet."""
    loop = program.loop
    between = loop is not None and loop.framework == "jax" and loop.taken is not None and program.dataset is None
    facts = Facts(batches_between=between)
    if program.model is not None:
        facts = _with_model(facts, program)
    return _with_input(facts, describe(program.dataset)) if program.own_pipeline else facts


def _with_model(facts: Facts, program: Program) -> Facts:
    model, tf = program.model, sys.modules["tensorflow"]
    variables = model.trainable_variables
    return replace(
        facts,
        layers=tuple(map(_layer, layers_of(model))),
        parameters=sum(math.prod(variable.shape) for variable in variables),
        parameter_bytes=sum(math.prod(v.shape) * tf.as_dtype(v.dtype).size for v in variables),
        metrics=_metrics(model),
        gpus=len(tf.config.list_physical_devices("GPU")),
        replicas=model.distribute_strategy.num_replicas_in_sync,
        steps_per_call=program.steps_per_call,
    )


def _layer(layer: Any) -> Layer:
    kernel = getattr(layer, "kernel", None) if layer.built else None
    return Layer(
        name=layer.name,
        kind=type(layer).__name__,
        kernel=tuple(int(size) for size in kernel.shape) if kernel is not None else None,
        dtype=str(layer.compute_dtype),
        channels_first=_channels_first(layer),
        groups=getattr(layer, "groups", 1),
        idle_bias=_idle_bias(layer),
    )


def _channels_first(layer: Any) -> bool:
    return getattr(layer, "data_format", "") == "channels_first"


def _idle_bias(layer: Any) -> bool:
    """Only a layer that was called in a graph of layers knows what reads it."""
    linear = getattr(getattr(layer, "activation", None), "__name__", "") == "linear"
    if not (linear and getattr(layer, "use_bias", False)) or getattr(layer, "bias_regularizer", None) is not None:
        return False
    readers = [node.operation for node in READERS.of(layer)]
    axis = 1 if _channels_first(layer) else -1
    return bool(readers) and all(
        type(norm).__name__ == "BatchNormalization" and norm.trainable and norm.axis == axis for norm in readers
    )


def _metrics(model: Any) -> tuple[str, ...]:
    """Metrics that each step updates, besides the mean of the loss."""
    means = {id(name.of(model)) for name in LOSS_METRICS}
    found = [inner for metric in model.metrics for inner in getattr(metric, "metrics", None) or (metric,)]
    return tuple(type(metric).__name__ for metric in found if id(metric) not in means and metric.name != "loss")


def _with_input(facts: Facts, pipeline: Pipeline) -> Facts:
    stages = pipeline.stages()
    maps = [(stage, wrapper) for stage in stages if (wrapper := MAP_FUNCTION.of(stage.dataset)) is not None]
    waits = (stage for stage in stages if "num_parallel_calls" in stage.arguments and pipeline.keeps_order)
    return replace(
        facts,
        decodes_jpeg=any(node.op in _DECODES for _, wrapper in maps for node in nodes_of(wrapper)),
        casts_early=next((stage.title for stage, wrapper in maps if _casts_early(wrapper.function.graph)), ""),
        keeps_order=next((stage.title for stage in waits if stage.arguments.get("deterministic") in (None, "default")), ""),
    )


def _casts_early(graph: Any) -> bool:
    """Whether a function casts bytes to floats and moves pixels afterwards, perhaps in a function
    that it calls.
    """
    library = graph.as_graph_def().library.function
    called_moves = any(node.op in _MOVES_PIXELS for function in library for node in function.node_def)
    floats = set[str]()
    for op in graph.get_operations():
        if op.type == "Cast" and op.inputs[0].dtype.name == "uint8" and op.outputs[0].dtype.is_floating:
            floats.add(op.name)
        elif any(tensor.op.name in floats for tensor in op.inputs):
            if op.type in _MOVES_PIXELS or (called_moves and called(op.node_def)):
                return True
            floats.add(op.name)
    return False

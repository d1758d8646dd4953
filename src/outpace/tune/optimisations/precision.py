"""Mixed precision: layers compute in 16 bits, variables and the model's outputs stay in 32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from outpace.model.units import counted
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations.knob import Knob, Turned
from outpace.tune.optimisations.optimisation import Answer, Applies, NotApplicable
from outpace.tune.program.state import layers_of

if TYPE_CHECKING:
    from outpace.tune.program.program import Program
    from outpace.tune.program.stepper import Stepper

_TYPES = {"mixed_bfloat16": 14, "mixed_float16": 19}  # DT_BFLOAT16, DT_HALF of TensorFlow's types.proto


class MixedPrecision(Knob):
    """Sets the dtype policy of every layer in place; the layers that give the model's outputs are left alone."""

    def __init__(self, policy: str, order: int) -> None:
        self.policy = policy
        self.id = policy
        self.title = policy.replace("_", " ")
        self.practice = "Compute in 16 bits where the hardware is faster at it, with variables in 32 bits (mixed precision)."
        self.opt_in = True
        self.order = order

    def applies(self, program: Program, /) -> Answer:
        """Where layers compute in float32."""
        layers = list(self._layers(program.model))
        if not layers:
            return NotApplicable("no layer computes in float32, or the model's only layers give its outputs")
        scaling = ", with the loss scaled" if self.policy == "mixed_float16" else ""
        return Applies(
            f"{counted(len(layers), 'layer computes', 'layers compute')} in float32{scaling}; the numbers change by rounding",
            Risk.STATISTICAL,
        )

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Turned while the train function is traced."""
        return Turned(lambda back: self._turn(program.model, back))

    def proof(self, program: Program, stepper: Stepper) -> str | None:
        """Whether the traced step computes in 16 bits."""
        graph = stepper.graph()
        if graph is None:
            return None
        nodes = [node for function in graph.library.function for node in function.node_def]
        wanted = _TYPES[self.policy]
        count = sum(node.op in _HEAVY and node.attr["T"].type == wanted for node in nodes)
        return (
            f"{count} matrix products and convolutions of the traced step compute in {self.policy.removeprefix('mixed_')}"
            if count
            else None
        )

    def _turn(self, model: Any, back: ExitStack) -> None:
        for layer in list(self._layers(model)):
            back.callback(setattr, layer, "dtype_policy", layer.dtype_policy)
            layer.dtype_policy = self.policy
        if self.policy == "mixed_float16":
            back.callback(setattr, model, "optimizer", model.optimizer)
            model.optimizer = _scaled(model.optimizer, model.trainable_variables)

    @staticmethod
    def _layers(model: Any) -> Iterator[Any]:
        outputs = _output_layers(model)
        for layer in layers_of(model):
            if type(layer).__name__ != "InputLayer" and layer not in outputs and layer.compute_dtype == "float32":
                yield layer


_HEAVY = {
    "MatMul",
    "BatchMatMulV2",
    "BatchMatMulV3",
    "Conv2D",
    "Conv3D",
    "DepthwiseConv2dNative",
    "Einsum",
    "_FusedConv2D",
    "_FusedMatMul",
}


def _output_layers(model: Any) -> list[Any]:
    """The layers that make the outputs: of a functional model those of its output tensors, else the last one."""
    tensors = getattr(model, "outputs", None)
    if tensors:
        history = [getattr(tensor, "_keras_history", None) for tensor in tensors]
        return [entry.operation for entry in history if entry is not None]
    layers = [layer for layer in layers_of(model) if layer.weights]
    return layers[-1:]


def _scaled(optimizer: Any, variables: Any) -> Any:
    """The optimizer inside one that scales the loss, so that small gradients do not vanish in 16 bits."""
    import keras

    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return optimizer
    wrapped = keras.optimizers.LossScaleOptimizer(optimizer)
    wrapped.build(variables)
    return wrapped


OPTIMISATIONS = (MixedPrecision("mixed_bfloat16", 30), MixedPrecision("mixed_float16", 31))

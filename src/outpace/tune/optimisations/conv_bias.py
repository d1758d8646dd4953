"""The bias of layers that feed a batch normalisation, which subtracts it again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from outpace.tune.optimisations.knob import Knob
from outpace.tune.optimisations.optimisation import Answer, Explained, NotApplicable
from outpace.tune.program.state import layers_of

if TYPE_CHECKING:
    from outpace.tune.program.program import Program

_SHOWN = 4  # layers that a sentence names


class ConvBias(Knob):
    """The bias of layers whose every output goes straight into a batch normalisation: in training it cancels, since the mean of the batch,
    which is subtracted, contains it. Explained: `use_bias=False` changes the layout of saved weights."""

    id = "conv_bias"
    title = "no bias before batch normalisation"
    practice = "Give layers before a batch normalisation no bias (use_bias=False): the normalisation subtracts it again."
    minor = True
    order = 15

    def applies(self, program: Program, /) -> Answer:
        """In models made of Keras' own graph of layers, with Keras' own step, where the bias has no other use."""
        refused = _refused(program.model)
        if refused is not None:
            return NotApplicable(refused)
        names = [layer.name for layer, _ in cancelled(program.model)]
        if not names:
            return NotApplicable("no layer with a bias feeds nothing but a batch normalisation of its channels")
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        return Explained(
            f"the batch normalisation after them subtracts the bias again: use_bias=False on {shown}",
            "it usually gains a few per cent, and changes the layout of saved weights",
        )


def cancelled(model: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """Layers whose bias cancels, each with the batch normalisations that its outputs go into."""
    after, given = _consumers(model)
    found = []
    for layer in layers_of(model):
        consumers = after.get(layer, [])
        if consumers and _biased(layer) and layer not in given and all(_cancels(layer, node) for node in consumers):
            found.append((layer, tuple({id(node.operation): node.operation for node in consumers}.values())))
    held = _held_elsewhere(model)
    shared = {id(norm) for norm, count in _calls(model).items() if count > 1}
    return [
        (layer, norms)
        for layer, norms in found
        if id(layer) not in held and not any(id(norm) in shared or id(norm) in held for norm in norms)
    ]


def _refused(model: Any) -> str | None:
    """Why nothing can be known of a model's biases, if so."""
    import keras

    if not list(_graphs(model)):
        return "the model is no functional or sequential one, so that its layers' order is not known"
    if getattr(model.train_step, "__func__", None) is not keras.Model.train_step:
        return "the model has a train_step of its own, which may use its layers otherwise"
    if model.run_eagerly:
        return "the model runs eagerly, so that no graph can show the effect"
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    return "the optimizer keeps averages of all variables, biases too" if getattr(optimizer, "use_ema", False) else None


def _graphs(model: Any) -> Iterator[Any]:
    """The graphs of layers: of the model and of the models inside it."""
    for layer in (model, *layers_of(model)):
        graph = getattr(layer, "_functional", layer)  # a sequential model holds one
        if type(layer).__module__.startswith("keras.") and hasattr(graph, "_nodes_by_depth"):
            yield graph


def _nodes(model: Any) -> Iterator[Any]:
    """Each call of a layer in them, once."""
    seen: set[int] = set()
    for graph in _graphs(model):
        for node in (node for nodes in graph._nodes_by_depth.values() for node in nodes):
            if id(node) not in seen:
                seen.add(id(node))
                yield node


def _consumers(model: Any) -> tuple[dict[Any, list[Any]], set[Any]]:
    """By layer the calls that its outputs go into; and the layers that give the output of a model."""
    after: dict[Any, list[Any]] = defaultdict(list)
    for node in _nodes(model):
        for parent in node.parent_nodes:
            after[parent.operation].append(node)
    made = {id(tensor): node.operation for node in _nodes(model) for tensor in node.output_tensors}
    outputs = (tensor for graph in _graphs(model) for tensor in graph.outputs)
    return dict(after), {made[id(tensor)] for tensor in outputs if id(tensor) in made}


def _calls(model: Any) -> dict[Any, int]:
    """How often each layer is called."""
    count: dict[Any, int] = defaultdict(int)
    for node in _nodes(model):
        count[node.operation] += 1
    return dict(count)


def _held_elsewhere(model: Any) -> set[int]:
    """Layers inside layers of other kinds, whose code may call them too."""
    graphs = {id(graph) for graph in _graphs(model)}
    owners = [
        layer
        for layer in layers_of(model)
        if id(layer) not in graphs and id(getattr(layer, "_functional", layer)) not in graphs
    ]
    return {id(held) for owner in owners for held in owner._flatten_layers(include_self=False)}


def _biased(layer: Any) -> bool:
    """Whether it is one of Keras' own layers that end with adding a bias, with nothing attached to the bias or the output."""
    import keras

    kinds = [
        getattr(keras.layers, f"{kind}{rank}D{after}")
        for rank in (1, 2, 3)
        for kind, after in (("Conv", ""), ("Conv", "Transpose"), ("DepthwiseConv", ""), ("SeparableConv", ""))
        if hasattr(keras.layers, f"{kind}{rank}D{after}")
    ]
    return (
        type(layer) in (*kinds, keras.layers.Dense)
        and layer.use_bias
        and layer.activation is keras.activations.linear
        and not any(getattr(layer, name, None) for name in ("bias_regularizer", "bias_constraint", "activity_regularizer"))
        and getattr(layer, "quantization_mode", None) is None
    )


def _cancels(layer: Any, node: Any) -> bool:
    """Whether a call is that of a batch normalisation that subtracts the mean of the batch, channel by channel."""
    import keras

    norm = node.operation
    if type(norm) is not keras.layers.BatchNormalization or not norm.trainable or getattr(norm, "renorm", False):
        return False
    if node.arguments.kwargs.get("training") is False:  # it subtracts the moving mean instead
        return False
    rank = len(node.input_tensors[0].shape)
    channels = 1 if getattr(layer, "data_format", None) == "channels_first" else rank - 1
    return bool(norm.axis % rank == channels)


OPTIMISATIONS = (ConvBias(),)

"""Functions of one element turned into functions of a batch.

Two ways. `batched` takes the traced graph as it is and hands it whole batches: legal only where every operation that the element
reaches works on each number by itself, and shapes line up from the right (so that a leading batch dimension changes nothing). It is
proved on the graph. `vectorised` lets TensorFlow rewrite the function (tf.vectorized_map): any pure function, but equality is only seen on
samples.
"""

from __future__ import annotations

from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data import functions
from outpace.tune.reason import reason_of

# Element by element, and with results that do not depend on where in a vector a number stands (exp, tanh and the like may differ in
# the last bit between the vector loop and its rest).
ELEMENTWISE = frozenset({
    "Mul", "AddV2", "Add", "Sub", "RealDiv", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Relu", "Abs", "Neg", "Sign", "Floor", "Ceil",
    "Square", "Sqrt", "Cast", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "LogicalNot",
    "SelectV2", "ClipByValue", "Identity", "StringLower", "StringUpper", "StringToHashBucketFast",
})  # fmt: skip
_NEW_LAST_AXIS = frozenset({"OneHot", "DecodeRaw"})  # they add an axis behind the others
_ENTRY = frozenset({"Placeholder", "NoOp"})


def batched(wrapper: Any, batch_structure: Any) -> Any:
    """The function for whole batches of its elements. Raises RebuildError with the operation that forbids it."""
    forbidden = illegal(wrapper)
    if forbidden is not None:
        raise RebuildError(forbidden)
    definition = wrapper.function.graph.as_graph_def()
    arguments, outputs = functions.flat_arguments(wrapper), list(wrapper.function.graph.outputs)

    def body(flat: list[Any]) -> Any:
        import tensorflow as tf

        feeds = [(tensor.name, value) for tensor, value in zip(arguments, flat, strict=True)]
        results = functions.imported(wrapper, definition, feeds, outputs, same_shapes=False)
        return tf.nest.pack_sequence_as(wrapper.output_structure, results)

    return functions.made(wrapper, batch_structure, body)


def illegal(wrapper: Any) -> str | None:
    """Why the graph may not be handed a batch, or None when it is proved that it may."""
    graph = wrapper.function.graph
    reached = {tensor.op.name for tensor in functions.flat_arguments(wrapper)}
    library = {function.signature.name: function for function in graph.as_graph_def().library.function}
    for op in graph.get_operations():
        if op.type in _ENTRY:
            continue
        if any(i.op.name in reached for i in op.inputs):
            reached.add(op.name)
            reason = _illegal(op, reached)
            if reason is not None:
                return reason
        elif functions.impure(op, library) and op.type != "ReadVariableOp":
            return f"{op.type} would run once per batch instead of once per element."
    for tensor in graph.outputs:
        if tensor.op.name not in reached:
            return f"The function returns a value that does not depend on its element ({tensor.op.type}), which has no batch dimension."
    return None


def _illegal(op: Any, reached: set[str]) -> str | None:
    ranks = [tensor.shape.rank for tensor in (*op.inputs, *op.outputs)]
    if any(rank is None for rank in ranks):
        return f"{op.type} ({op.name}) has tensors of unknown rank."
    if any(tensor.dtype.name in ("variant", "resource") for tensor in (*op.inputs, *op.outputs)):
        return f"{op.type} ({op.name}) takes something else than plain tensors."
    if op.type in _NEW_LAST_AXIS:
        alone = all(tensor.op.name not in reached for tensor in op.inputs[1:])
        last = op.type != "OneHot" or op.get_attr("axis") == -1
        return None if alone and last else f"{op.type} ({op.name}) adds another axis than the last."
    if op.type not in ELEMENTWISE:
        return f"{op.type} ({op.name}) is not known to work on each number by itself."
    rank = op.outputs[0].shape.rank
    for tensor in op.inputs:
        if tensor.shape.rank > rank or (tensor.op.name in reached and tensor.shape.rank != rank):
            return f"{op.type} ({op.name}) stretches a tensor of the element over another one, which a batch dimension would shift."
    return None


def vectorised(wrapper: Any, batch_structure: Any) -> Any:
    """The function for whole batches by tf.vectorized_map. Raises RebuildError for a function that is more than its argument's."""
    import tensorflow as tf

    facts = functions.facts(wrapper)
    if facts.stateful:
        causes = ", ".join(facts.stateful)
        raise RebuildError(f"{facts.place} is stateful ({causes}): drawn or read once per batch it would be another function.")
    definition = wrapper.function.graph.as_graph_def()
    arguments, outputs = functions.flat_arguments(wrapper), list(wrapper.function.graph.outputs)

    def one(elements: list[Any]) -> list[Any]:
        feeds = [(tensor.name, value) for tensor, value in zip(arguments, elements, strict=True)]
        return functions.imported(wrapper, definition, feeds, outputs)

    def body(flat: list[Any]) -> Any:
        return tf.nest.pack_sequence_as(wrapper.output_structure, tf.vectorized_map(one, flat, fallback_to_while_loop=False))

    try:
        return functions.made(wrapper, batch_structure, body)
    except (ValueError, TypeError, NotImplementedError, RuntimeError) as error:
        why = reason_of(error)
        raise RebuildError(f"TensorFlow cannot vectorise {facts.place}: {why}.") from error

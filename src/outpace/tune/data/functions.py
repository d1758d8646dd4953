"""Parts of a traced function's graph: imported into a new function, so that no Python of the user's runs again; and whether it may be handed
whole batches instead of single elements, which is legal where every operation that the element reaches works on each number by itself, and
shapes line up from the right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from outpace.tune.purity import traced


def imported(
    wrapper: Any, definition: Any, feeds: Sequence[tuple[str, Any]], fetches: Sequence[Any], same_shapes: bool = True
) -> list[Any]:
    """Inside a function under construction: the tensors `fetches` of a (pruned) graph, with `feeds` for some of its tensors.

    What the original function captured is captured again. `same_shapes`: the results have the static shapes of the original's.
    """
    from tensorflow.python.framework import importer, ops

    graph = ops.get_default_graph()
    function = wrapper.function
    captures = function.graph.inputs[len(function.graph.inputs) - len(function.captured_inputs) :]
    present = {node.name for node in definition.node} | {_op(name) for node in definition.node for name in node.input}
    feed = {
        inner.name: outer for inner, outer in zip(captures, function.captured_inputs, strict=True) if _op(inner.name) in present
    }
    feed = {name: graph.capture(tensor) for name, tensor in feed.items()}
    given = dict(feeds)
    feed.update({name: tensor for name, tensor in given.items() if _op(name) in present})
    wanted = [tensor for tensor in fetches if tensor.name not in given]
    names = [tensor.name for tensor in wanted]
    made = iter(importer.import_graph_def(definition, input_map=feed, return_elements=names, name="") if wanted else [])
    results = []
    for tensor in fetches:
        result = given[tensor.name] if tensor.name in given else next(made)
        if tensor.name not in given and same_shapes:
            result.set_shape(tensor.shape)
        results.append(result)
    return results


def flat_arguments(wrapper: Any) -> list[Any]:
    """The graph's own argument tensors, without the captured ones."""
    graph = wrapper.function.graph
    return list(graph.inputs[: len(graph.inputs) - len(wrapper.function.captured_inputs)])


def made(wrapper: Any, input_structure: Any, body: Callable[[list[Any]], Any]) -> Any:
    """A new traced function for elements of `input_structure`; `body` gets the element's flat tensors.

    The new one keeps the old one alive (its Python callbacks and tables), by `_func`.
    """
    from tensorflow.python.autograph.impl import api as autograph
    from tensorflow.python.data.ops import structured_function
    from tensorflow.python.data.util import structure

    def outpace_function(*elements: Any) -> Any:
        whole = elements if type(input_structure) is tuple else elements[0]
        return body(structure.to_tensor_list(input_structure, whole))

    vars(outpace_function)["_outpace_keeps"] = wrapper
    unconverted = autograph.do_not_convert(outpace_function)
    new = structured_function.StructuredFunctionWrapper(unconverted, "Dataset.map()", input_structure=input_structure)
    new._outpace_keeps = wrapper
    return new


def _op(tensor_name: str) -> str:
    return tensor_name.removeprefix("^").split(":")[0]


# Element by element, and with results that do not depend on where in a vector a number stands (exp, tanh and the like may differ in
# the last bit between the vector loop and its rest).
ELEMENTWISE = frozenset({
    "Mul", "AddV2", "Add", "Sub", "RealDiv", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Relu", "Abs", "Neg", "Sign", "Floor", "Ceil",
    "Square", "Sqrt", "Cast", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "LogicalNot",
    "SelectV2", "ClipByValue", "Identity", "StringLower", "StringUpper", "StringToHashBucketFast",
})  # fmt: skip
_NEW_LAST_AXIS = frozenset({"OneHot", "DecodeRaw"})  # they add an axis behind the others
_ENTRY = frozenset({"Placeholder", "NoOp"})


def illegal(wrapper: Any) -> str | None:
    """Why the graph may not be handed a batch, or None when it is proved that it may."""
    graph = wrapper.function.graph
    reached = {tensor.op.name for tensor in flat_arguments(wrapper)}
    library = {function.signature.name: function for function in graph.as_graph_def().library.function}
    for op in graph.get_operations():
        if op.type in _ENTRY:
            continue
        if any(i.op.name in reached for i in op.inputs):
            reached.add(op.name)
            reason = _illegal(op, reached)
            if reason is not None:
                return reason
        elif traced.impure(op, library) and op.type != "ReadVariableOp":
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

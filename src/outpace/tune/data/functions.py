# SPDX-License-Identifier: Apache-2.0
"""Parts of a traced function's graph: imported into a new function, so that no Python of the user's
runs again; and whether a function takes whole batches instead of single elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from outpace.frameworks.tensorflow import DEFAULT_GRAPH, FLATTEN, FUNCTION_WRAPPER, MAP_FUNCTION
from outpace.tune.data.tree import Stage
from outpace.tune.purity import traced
from outpace.tune.purity.evidence import rows, same


def imported(wrapper: Any, definition: Any, feeds: Sequence[tuple[str, Any]], fetches: Sequence[Any]) -> list[Any]:
    """Inside a function under construction: the tensors `fetches` of a (pruned) graph, with `feeds`
    for some of its tensors.

    What the original function captured is captured again.
    """
    import tensorflow as tf

    graph = DEFAULT_GRAPH.value()
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
    made = iter(tf.graph_util.import_graph_def(definition, input_map=feed, return_elements=names, name="") if wanted else [])
    results = []
    for tensor in fetches:
        result = given[tensor.name] if tensor.name in given else next(made)
        if tensor.name not in given:
            result.set_shape(tensor.shape)
        results.append(result)
    return results


def flat_arguments(wrapper: Any) -> list[Any]:
    """The graph's own argument tensors, without the captured ones."""
    graph = wrapper.function.graph
    return list(graph.inputs[: len(graph.inputs) - len(wrapper.function.captured_inputs)])


def made(wrapper: Any, input_structure: Any, body: Callable[[list[Any]], Any]) -> Any:
    """A new traced function for elements of `input_structure`; `body` gets the element's flat
    tensors.

    The new one keeps the old one alive (its Python callbacks and tables).
    """
    import tensorflow as tf

    def outpace_function(*elements: Any) -> Any:
        whole = elements if type(input_structure) is tuple else elements[0]
        return body(FLATTEN.value(input_structure, whole))

    vars(outpace_function)["_outpace_keeps"] = wrapper
    unconverted = tf.autograph.experimental.do_not_convert(outpace_function)
    new = FUNCTION_WRAPPER.value(unconverted, "Dataset.map()", input_structure=input_structure)
    new._outpace_keeps = wrapper
    return new


def _op(tensor_name: str) -> str:
    return tensor_name.removeprefix("^").split(":")[0]


SEEN = 33  # elements: what a loop over vectors makes, and its rest


def takes_batches(mapping: Stage) -> bool:
    """Whether a map's function makes of a batch what it makes of the elements one by one, bit by
    bit; seen on the first elements that any shuffle would be given. Where a Python function would
    run, or something be written, it is not looked at.
    """
    found = [facts for stage in mapping.walk() for facts in stage.functions]
    if mapping.functions[0].random or any(_runs_code(facts) for facts in found):
        return False
    import tensorflow as tf

    below = mapping.inputs[0]
    while below.op in ("shuffle", "repeat"):
        below = below.inputs[0]
    function = traced.user_function(MAP_FUNCTION.of(mapping.dataset))
    try:
        (batch,) = below.dataset.batch(SEEN).take(1)
        each = tf.data.Dataset.from_tensor_slices(batch).map(function).batch(SEEN)
        whole = tf.data.Dataset.from_tensors(batch).map(function)
        return same(*(rows(next(iter(dataset))) for dataset in (each, whole)))
    except Exception:  # the user's function is not made for batches, or their elements go into none
        return False


def _runs_code(facts: traced.FunctionFacts) -> bool:
    return facts.python or bool(facts.writes) or (facts.random and facts.captures_resources)

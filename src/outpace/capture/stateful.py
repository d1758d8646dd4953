"""What inside a data set's function keeps TensorFlow from running it in parallel by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from outpace.frameworks import tensorflow

# Stateful by declaration, yet no cause of their own: what a call, branch or loop runs is listed
# itself, and so is a captured variable; making a data set inside (interleave) is what such a
# function is for.
HARMLESS_OPS = {"Assert", "Print", "PrintV2", "If", "While", "Case", "StatefulPartitionedCall", "ReadVariableOp"}
DATASET = re.compile(r"Dataset(V\d+)?$")
CAPTURED_VARIABLE = "captured variable"
_PYTHON = ("PyFunc", "EagerPyFunc")
_LOOKUPS = ("ReadFile", "LookupTableFind", "LookupTableSize")  # stateful by declaration; they answer the same in every epoch
_READS = ("ReadVariableOp", "ResourceGather")


def find_function(dataset: Any) -> Any:
    """The traced function of a map-like data set, or None."""
    for name in (tensorflow.MAP_FUNCTION, tensorflow.PREDICATE, tensorflow.SCAN_FUNCTION):
        wrapper = name.of(dataset)
        if wrapper is not None and hasattr(wrapper, "function"):
            return wrapper
    return None


def find_function_name(wrapper: Any) -> str | None:
    """Name of the user's function."""
    name = getattr(tensorflow.WRAPPED_FUNCTION.of(wrapper), "__name__", None)
    return name if isinstance(name, str) else None


def stateful_ops(wrapper: Any) -> tuple[str, ...]:
    """Sorted types of the stateful operations, with `captured variable` for state that lives
    outside the function.
    """
    try:
        graph = wrapper.function.graph
        found = {kind for kind in _types(graph) if kind not in HARMLESS_OPS and not DATASET.search(kind) and _is_stateful(kind)}
        if any(getattr(tensor.dtype, "name", "") == "resource" for tensor, _ in graph.captures):
            found.add(CAPTURED_VARIABLE)
    except Exception:
        return ()
    return tuple(sorted(found))


def varying_ops(wrapper: Any) -> tuple[str, ...]:
    """Names of the operations that give something else in every epoch: what draws random numbers or
    works with a variable, and all that depends on it. Python functions are not among them: nobody
    can see what they do.
    """
    try:
        graph = wrapper.function.graph
        bodies = {name for name, kinds in _bodies(graph) if any(map(_varies, kinds))}
        found: dict[str, None] = {}
        for operation in graph.get_operations():  # inputs come before what they feed
            behind = any(tensor.op.name in found for tensor in operation.inputs)
            if behind or _varies(operation.type) or (bodies and not bodies.isdisjoint(_called(operation))):
                found[operation.name] = None
    except Exception:
        return ()
    return tuple(found)


def _called(operation: Any) -> Iterator[str]:
    """Names of the functions that an operation calls."""
    return (str(value.func.name) for value in operation.node_def.attr.values() if value.HasField("func"))


def _varies(kind: str) -> bool:
    harmless = kind in HARMLESS_OPS or kind in _PYTHON or kind.startswith(_LOOKUPS) or DATASET.search(kind)
    return kind.startswith(_READS) or (not harmless and _is_stateful(kind))


def _types(graph: Any) -> Iterator[str]:
    for operation in graph.get_operations():
        yield operation.type
    for _, kinds in _bodies(graph):
        yield from kinds


def _bodies(graph: Any) -> Iterator[tuple[str, list[str]]]:
    """Bodies of conditions, loops and nested functions: name, and types of the operations."""
    for name, function in tensorflow.GRAPH_FUNCTIONS.of(graph, {}).items():
        definition = getattr(function, "cached_definition", None) or getattr(function, "definition", None)
        yield str(name), [node.op for node in getattr(definition, "node_def", ())]


def _is_stateful(kind: str) -> bool:
    if kind in ("PyFunc", "EagerPyFunc"):
        return True
    definition = tensorflow.OP_DEFINITION.value(kind)
    return definition is not None and bool(definition.is_stateful)

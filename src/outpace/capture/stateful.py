# SPDX-License-Identifier: Apache-2.0
"""Finds what keeps TensorFlow from running a data set's function in parallel by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from outpace.frameworks import tensorflow

# Ops that are declared stateful but are no cause of their own. The contents of a call, branch or
# loop are listed themselves, and so is a captured variable; making a data set inside is the purpose
# of such a function (interleave).
HARMLESS_OPS = {"Assert", "Print", "PrintV2", "If", "While", "Case", "StatefulPartitionedCall", "ReadVariableOp"}
DATASET = re.compile(r"Dataset(V\d+)?$")
CAPTURED_VARIABLE = "captured variable"
_PYTHON_OPS = ("PyFunc", "EagerPyFunc")
# prefixes of ops that are declared stateful but return the same in every epoch
_LOOKUP_PREFIXES = ("ReadFile", "LookupTableFind", "LookupTableSize")
_READ_PREFIXES = ("ReadVariableOp", "ResourceGather")


def find_function(dataset: Any) -> Any:
    """Return the traced function of a map-like data set, or None."""
    for name in (tensorflow.MAP_FUNCTION, tensorflow.PREDICATE, tensorflow.SCAN_FUNCTION):
        wrapper = name.of(dataset)
        if wrapper is not None and hasattr(wrapper, "function"):
            return wrapper
    return None


def find_function_name(wrapper: Any) -> str | None:
    """Return the name of the user's function, or None."""
    name = getattr(tensorflow.WRAPPED_FUNCTION.of(wrapper), "__name__", None)
    return name if isinstance(name, str) else None


def stateful_ops(wrapper: Any) -> tuple[str, ...]:
    """Return the sorted types of the stateful operations in a function, with `captured variable`
    for state outside the function.
    """
    try:
        graph = wrapper.function.graph
        kinds = {kind for kind in _types(graph) if kind not in HARMLESS_OPS and not DATASET.search(kind) and _is_stateful(kind)}
        if any(getattr(tensor.dtype, "name", "") == "resource" for tensor, _ in graph.captures):
            kinds.add(CAPTURED_VARIABLE)
    except Exception:
        return ()
    return tuple(sorted(kinds))


def varying_ops(wrapper: Any) -> tuple[str, ...]:
    """Return the names of the operations whose result differs from epoch to epoch: those that draw
    random numbers or use a variable, and all that depend on them. Python functions are not listed,
    because their effects cannot be seen.
    """
    try:
        graph = wrapper.function.graph
        bodies = {name for name, kinds in _bodies(graph) if any(map(_varies, kinds))}
        names: dict[str, None] = {}
        for operation in graph.get_operations():  # operations come after their inputs
            depends = any(tensor.op.name in names for tensor in operation.inputs)
            if depends or _varies(operation.type) or (bodies and not bodies.isdisjoint(_called_functions(operation))):
                names[operation.name] = None
    except Exception:
        return ()
    return tuple(names)


def _called_functions(operation: Any) -> Iterator[str]:
    """Yield the names of the functions that an operation calls."""
    return (str(value.func.name) for value in operation.node_def.attr.values() if value.HasField("func"))


def _varies(kind: str) -> bool:
    """Whether operations of a type return something else in every epoch."""
    harmless = kind in HARMLESS_OPS or kind in _PYTHON_OPS or kind.startswith(_LOOKUP_PREFIXES) or DATASET.search(kind)
    return kind.startswith(_READ_PREFIXES) or (not harmless and _is_stateful(kind))


def _types(graph: Any) -> Iterator[str]:
    """Yield the types of all operations of a graph, nested functions included."""
    for operation in graph.get_operations():
        yield operation.type
    for _, kinds in _bodies(graph):
        yield from kinds


def _bodies(graph: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield (name, types of its operations) of each nested function: branches, loop bodies and
    calls.
    """
    for name, function in tensorflow.GRAPH_FUNCTIONS.of(graph, {}).items():
        definition = getattr(function, "cached_definition", None) or getattr(function, "definition", None)
        yield str(name), [node.op for node in getattr(definition, "node_def", ())]


def _is_stateful(kind: str) -> bool:
    """Whether TensorFlow declares an operation stateful."""
    if kind in ("PyFunc", "EagerPyFunc"):
        return True
    definition = tensorflow.OP_DEFINITION.value(kind)
    return definition is not None and bool(definition.is_stateful)

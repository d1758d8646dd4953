"""What inside a data set's function keeps TensorFlow from running it in parallel by itself. Private API, read defensively."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

# Stateful by declaration, yet no cause of their own: what a call, branch or loop runs is listed itself, and so is a
# captured variable; making a data set inside (interleave) is what such a function is for.
HARMLESS = {"Assert", "Print", "PrintV2", "If", "While", "Case", "StatefulPartitionedCall", "ReadVariableOp"}
DATASET = re.compile(r"Dataset(V\d+)?$")
CAPTURED = "captured variable"


def function_of(dataset: Any) -> Any:
    """The traced function of a map-like data set, or None."""
    for name in ("_map_func", "_predicate", "_scan_func"):
        wrapper = getattr(dataset, name, None)
        if wrapper is not None and hasattr(wrapper, "function"):
            return wrapper
    return None


def name_of(wrapper: Any) -> str | None:
    """Name of the user's function."""
    name = getattr(getattr(wrapper, "_func", None), "__name__", None)
    return name if isinstance(name, str) else None


def operations(wrapper: Any) -> tuple[str, ...]:
    """Sorted types of the stateful operations, with `captured variable` for state that lives outside the function."""
    try:
        graph = wrapper.function.graph
        found = {kind for kind in _types(graph) if kind not in HARMLESS and not DATASET.search(kind) and _is_stateful(kind)}
        if any(getattr(tensor.dtype, "name", "") == "resource" for tensor, _ in graph.captures):
            found.add(CAPTURED)
    except Exception:
        return ()
    return tuple(sorted(found))


def _types(graph: Any) -> Iterator[str]:
    for operation in graph.get_operations():
        yield operation.type
    for function in getattr(graph, "_functions", {}).values():  # bodies of conditions, loops and nested functions
        definition = getattr(function, "cached_definition", None) or getattr(function, "definition", None)
        for node in getattr(definition, "node_def", ()):
            yield node.op


def _is_stateful(kind: str) -> bool:
    if kind in ("PyFunc", "EagerPyFunc"):
        return True
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(kind)
    return definition is not None and bool(definition.is_stateful)

"""What a data set object holds: its inputs and functions, and its serialised graph, with what the objects do not keep; the fall-back where a
class is unknown.

Serialising copies everything that a source holds in memory (a measured 5 bytes of peak memory per byte, and an error above 2 GB),
so the bytes are estimated first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.reason import reason_of

READERS = ("TFRecordDatasetV2", "TextLineDatasetV2", "FixedLengthRecordDatasetV2")  # each wraps a flat_map over its file names


def inputs_of(node: Any) -> list[Any]:
    """The data sets that feed this one; of a file reader, the data set of file names, which it hides."""
    if type(node).__name__ in READERS and hasattr(node, "_impl"):
        return list(node._impl._inputs())
    return list(node._inputs())


def functions_of(node: Any, names: tuple[str, ...]) -> list[Any]:
    """Its traced functions, by the attributes `_<name>`, or as it lists them itself."""
    found = [getattr(node, f"_{name}", None) for name in names] or list(node._functions())
    return [wrapper for wrapper in found if hasattr(getattr(wrapper, "function", None), "graph")]


LARGEST = 1_000_000_000  # bytes of in-memory sources; 1 GB took 29 s and 5.3 GB, 2.5 GB failed
_RETURNED = "_Retval"


def source_bytes(dataset: Any) -> int:
    """Bytes of the tensors that the pipeline's sources hold, from dtypes and shapes alone."""
    total, todo, seen = 0, [dataset], set()
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        total += sum(map(_tensor_bytes, getattr(node, "_tensors", None) or ()))
        todo += inputs_of(node)
    return total


def _tensor_bytes(tensor: Any) -> int:
    count = 1
    for size in tensor.shape:
        count *= int(size or 1)
    size = getattr(tensor.dtype, "size", None) or 0
    return count * (int(size) if size > 0 and tensor.dtype.name != "string" else 64)  # a short text; only an estimate


def serialised(dataset: Any) -> Any:
    """GraphDef of a pipeline. Raises RebuildError when its sources are too large, or TensorFlow cannot serialise it."""
    size = source_bytes(dataset)
    if size > LARGEST:
        raise RebuildError(
            f"The pipeline's sources hold about {size / 1e9:.1f} GB in memory; its graph is only read up to {LARGEST / 1e9:.0f} GB."
        )
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.data.ops import options

    graph = graph_pb2.GraphDef()
    try:
        graph.ParseFromString(dataset._as_serialized_graph(external_state_policy=options.ExternalStatePolicy.IGNORE).numpy())
    except Exception as error:
        raise RebuildError(f"TensorFlow could not serialise the pipeline: {reason_of(error)}") from error
    return graph


def attribute(dataset: Any, name: str) -> Any:
    """One attribute of the op that made this stage: what its Python object did not keep."""
    node = next(iter(chain(serialised(dataset))))
    if name not in node.attr:
        raise RebuildError(f"The op {node.op} has no attribute {name}.")
    value = node.attr[name]
    return getattr(value, value.WhichOneof("value")) if not value.s else value.s.decode()


def chain(graph: Any) -> Iterator[Any]:
    """Nodes from the pipeline's end along the first inputs to a source."""
    nodes = {node.name: node for node in graph.node}
    last = next(node for node in graph.node if node.op == _RETURNED)
    while last.input:
        last = nodes[re.sub(r"^\^|:\d+$", "", last.input[0])]
        if "Dataset" not in last.op:
            return
        yield last

"""Which lookup tables that a traced function reads cannot change: those that are filled once, when they are made (StaticHashTable)."""

from __future__ import annotations

from typing import Any


def constant(wrapper: Any) -> frozenset[int]:
    """Ids of the captured tensors of a function that are handles of tables which accept no more entries.

    TensorFlow has no question for that, but an insertion of no entries at all has an answer: it changes no table, and a table that is
    filled once refuses it as not implemented.
    """
    types = _types(wrapper)
    handles = [tensor for tensor in wrapper.function.captured_inputs if getattr(tensor.dtype, "name", "") == "resource"]
    return frozenset(id(handle) for handle in handles if types and any(_refuses(handle, *pair) for pair in types))


def _types(wrapper: Any) -> set[tuple[Any, Any]]:
    """The (key, value) types of the function's look-ups, in it and in functions that it calls."""
    definition = wrapper.function.graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return {(node.attr["Tin"].type, node.attr["Tout"].type) for node in nodes if node.op == "LookupTableFindV2"}


def _refuses(handle: Any, keys: Any, entries: Any) -> bool:
    import tensorflow as tf
    from tensorflow.python.ops import gen_lookup_ops

    try:
        gen_lookup_ops.lookup_table_insert_v2(handle, _none(tf, keys), _none(tf, entries))
    except tf.errors.UnimplementedError:
        return True
    except Exception:  # a variable, or a table of other types or shapes
        return False
    return False


def _none(tf: Any, kind: Any) -> Any:
    return tf.constant([], tf.as_dtype(kind))

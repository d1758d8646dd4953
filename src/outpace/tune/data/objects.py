"""The inputs of a data set object, readers included."""

from __future__ import annotations

from typing import Any

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

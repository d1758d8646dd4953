# SPDX-License-Identifier: Apache-2.0
"""Values of the numbers and vectors with which a graph computes sizes, such as the shape that a
reshape asks for: constants, and symbols of open dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from outpace.capture.graph_dimensions import Dimension, Symbol, Tensor

Values = tuple[Dimension, ...] | None
_PASSING = ("Identity", "Cast", "Squeeze", "ExpandDims")
_MOST = 32  # maximum number of values of a tensor that is followed


def find_values(op: Any, inputs: Sequence[Tensor]) -> Values:
    """Return the values of an op's result; None where it is no number or vector of sizes, or they
    do not follow. Single values are None where they are not known.
    """
    found = _find_values(op, inputs)
    return found if found is not None and len(found) <= _MOST else None


def _find_values(op: Any, inputs: Sequence[Tensor]) -> Values:
    if op.type == "Const":
        return _constants(op)
    if op.type == "Shape":
        return inputs[0].dimensions
    given = [one.values for one in inputs]
    if not given or given[0] is None:
        return None
    known = [values for values in given if values is not None]
    if op.type in _PASSING:
        return given[0] if op.type != "Cast" or op.outputs[0].dtype.name in ("int32", "int64") else None
    if op.type == "StridedSlice" and len(known) == len(given):
        return _sliced(op, *known[:4])
    if op.type == "GatherV2" and given[1] is not None and not op.get_attr("batch_dims"):
        places = [place for place in given[1] if isinstance(place, int) and 0 <= place < len(known[0])]
        return tuple(known[0][place] for place in places) if len(places) == len(given[1]) else None
    if op.type == "Prod" or (op.type == "Mul" and len(known) == 2 and all(len(values) == 1 for values in known)):
        return (_product([size for values in known[: len(known) if op.type == "Mul" else 1] for size in values]),)
    if op.type == "Pack" and any(one.dimensions != () for one in inputs):
        return None
    if op.type in ("Pack", "ConcatV2") and len(known) == len(given):
        return tuple(size for values in known[: len(known) - (op.type == "ConcatV2")] for size in values)
    return None


def _product(sizes: Sequence[Dimension]) -> Dimension:
    """Return the product of sizes; None where more than one is a symbol, or one is not known."""
    symbols = [size for size in sizes if isinstance(size, Symbol)]
    if None in sizes or len(symbols) > 1:
        return None
    factor = math.prod(size for size in sizes if isinstance(size, int))
    return Symbol(symbols[0].number, symbols[0].factor * factor) if symbols and factor else factor


def _sliced(op: Any, vector: tuple[Dimension, ...], *bounds: tuple[Dimension, ...]) -> Values:
    """Return the values of a slice of a vector."""
    begin, end, stride = (one[0] if len(one) == 1 else None for one in bounds)
    if not (isinstance(begin, int) and isinstance(end, int) and isinstance(stride, int)) or not stride:
        return None
    if op.get_attr("ellipsis_mask") or op.get_attr("new_axis_mask"):
        return None
    if op.get_attr("shrink_axis_mask"):
        return (vector[begin],) if -len(vector) <= begin < len(vector) else None
    first, last = (None if op.get_attr(f"{name}_mask") else place for name, place in (("begin", begin), ("end", end)))
    return vector[first:last:stride]


def _constants(op: Any) -> Values:
    """Return the numbers of a constant number or vector of integers."""
    tensor = op.outputs[0]
    if tensor.dtype.name not in ("int32", "int64") or tensor.shape.rank is None or tensor.shape.rank > 1:
        return None
    size = math.prod(tensor.shape.as_list())
    if size > _MOST:
        return None
    value = op.get_attr("value")
    numbers, content = list(value.int_val or value.int64_val), value.tensor_content
    if content:
        width = tensor.dtype.size
        numbers = [int.from_bytes(content[at : at + width], "little", signed=True) for at in range(0, len(content), width)]
    return tuple(numbers[:size] + numbers[-1:] * (size - len(numbers)))

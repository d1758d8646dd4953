# SPDX-License-Identifier: Apache-2.0
"""Finds the results in TensorFlow's graphs of which anything reads only a part.

A layer may compute all positions of a sequence, and the loss read the last one. The ops of a graph
are followed from its end: a slice or gather reads a part of what it takes, and so do the ops before
it that compute each element, or each row, by itself. Gradient ops are left out: the gradient is 0
wherever nothing else reads a result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from outpace.capture.graph_dimensions import ELEMENTWISE, MATMUL, Dimensions, Symbol, Tensor, equation

# a user's own scope may be called gradients, too
GRADIENT_SCOPE = re.compile(r"(?:^|/)(?:gradient_tape/|gradients(?:_\d+)?/(?=.*_grad/|grad_ys))")
_SLICING = ("StridedSlice", "Slice", "Gather", "GatherV2", "GatherNd")
SIZE_OPS = ("Shape", "ShapeN", "Size", "Rank")
"""Ops that read no element of what they take."""
_MOVING = ("Reshape", "Identity", "ExpandDims", "Squeeze", "Transpose", "StopGradient", "PreventGradient")
_OVER_ROWS = ("Softmax", "LogSoftmax")  # read a whole row for each element
_REDUCING = ("Mean", "Sum", "Max", "Min", "Prod", "All", "Any")
_PRODUCTS = re.compile(r"(Batch)?MatMul|Conv[23]D$|DepthwiseConv2dNative$|Einsum$")
_PADDING = ("StridedSliceGrad", "Pad", "PadV2", "ScatterNd", "UnsortedSegmentSum")  # gradients of slices and gathers
_WHOLE = 0.999  # share of a result above which all of it counts as read


class _Part(NamedTuple):
    """The part of a result that is read.

    share: its share of the elements.
    is_rows: whether it is whole rows: along the last dimension all is read.
    taker: name of the op that takes the part.
    moved: last op on the way to it that puts elements elsewhere; "" for none.
    """

    share: float
    is_rows: bool
    taker: str
    moved: str = ""


_Read = _Part | None  # None: all of it
Describe = Callable[[Any], Tensor]
"""A function that returns what is known of a tensor."""


def find_needed_parts(ops: Sequence[Any], outputs: Iterable[Any], describe: Describe) -> dict[str, tuple[float, str] | None]:
    """Return, for each op that computes elements, (share of its result that is read, op that takes
    it), None where all of it is.

    outputs: results of the graph.
    describe: function that returns what is known of a tensor.
    """
    reads: dict[int, _Read] = {id(tensor): None for tensor in outputs}
    found: dict[str, tuple[float, str] | None] = {}
    for op in reversed(ops):
        if op.type in SIZE_OPS or GRADIENT_SCOPE.search(op.name):
            continue
        part = reads.get(id(op.outputs[0])) if len(op.outputs) == 1 else None
        if ELEMENTWISE.match(op.type) or _PRODUCTS.match(op.type):
            found[op.name] = (part.share, part.taker) if part is not None else None
        for tensor, read in zip(op.inputs, _reads_of(op, part, describe), strict=True):
            key = id(tensor)
            reads[key] = _merge(reads[key], read) if key in reads else read
    return found if _starts_at_slices(ops, found) else dict.fromkeys(found)


def _starts_at_slices(ops: Sequence[Any], found: Mapping[str, tuple[float, str] | None]) -> bool:
    """Whether the gradients of all products of which a part is read come from the gradients of
    slices. They do not where a gradient is asked of such a result itself, or of what follows it.
    """
    padded: set[int] = set()
    for op in ops:
        match = GRADIENT_SCOPE.search(op.name)
        if op.type in _PADDING or any(id(tensor) in padded for tensor in op.inputs):
            padded.update(id(tensor) for tensor in op.outputs)
        elif match and _PRODUCTS.match(op.type):
            forward = GRADIENT_SCOPE.split(op.name)[-1].rpartition("/")[0]
            if found.get(forward) is not None or found.get(forward.removesuffix("_grad")) is not None:
                return False
    return True


def _merge(one: _Read, other: _Read) -> _Read:
    """Return the part that two readers read together, at most."""
    if one is None or other is None:
        return None
    is_same = (one.taker, one.moved) == (other.taker, other.moved)
    share = max(one.share, other.share) if is_same else one.share + other.share
    larger = max(one, other)
    return larger._replace(share=share, is_rows=one.is_rows and other.is_rows) if share <= _WHOLE else None


def _reads_of(op: Any, part: _Read, describe: Describe) -> list[_Read]:
    """Return what an op, of whose result a part is read, reads of each of its inputs."""
    reads: list[_Read] = [None] * len(op.inputs)
    if op.type in _SLICING:
        reads[0] = _sliced(op, part, describe)
    elif part is None:
        pass
    elif op.type in _MOVING:
        moved = op.name if op.type in ("Transpose", "Reshape") else part.moved
        reads[0] = part._replace(is_rows=part.is_rows and _moves_rows(op, describe), moved=moved)
    elif op.type in _OVER_ROWS:
        reads[0] = part if part.is_rows else None
    elif ELEMENTWISE.match(op.type):
        result = describe(op.outputs[0])
        reads = [
            part if _fits(describe(tensor), result) or (part.is_rows and _is_column(describe(tensor), result)) else None
            for tensor in op.inputs
        ]
    elif part.is_rows and _keeps_rows(op, describe):
        reads[0] = part
    return reads


def _sliced(op: Any, part: _Read, describe: Describe) -> _Read:
    """Return what a slice or gather reads of what it takes."""
    whole, taken = describe(op.inputs[0]), describe(op.outputs[0])
    share = _ratio(taken.dimensions, whole.dimensions) * (part.share if part is not None else 1)
    is_rows = _takes_rows(op, whole, describe) and (part is None or part.is_rows)
    return _Part(share, is_rows, op.name) if share <= _WHOLE else None


def _ratio(part: Dimensions, whole: Dimensions) -> float:
    """Return the number of elements of one tensor over that of another; infinity where it does not
    follow from what is known.
    """
    if part is None or whole is None or None in (*part, *whole):
        return math.inf
    symbols = [sorted(one.number for one in sizes if isinstance(one, Symbol)) for sizes in (part, whole)]
    counts = [math.prod(one.factor if isinstance(one, Symbol) else one or 0 for one in sizes) for sizes in (part, whole)]
    return counts[0] / counts[1] if symbols[0] == symbols[1] and counts[1] else math.inf


def _takes_rows(op: Any, whole: Tensor, describe: Describe) -> bool:
    """Whether a slice or gather takes all of the last dimension. It may drop another one that is as
    long.
    """
    last = len(whole.dimensions or ()) - 1
    if op.type == "StridedSlice":
        strides = describe(op.inputs[3]).values
        is_plain = strides is not None and not op.get_attr("ellipsis_mask") and not op.get_attr("new_axis_mask")
        if strides is None or not is_plain or len(strides) <= last:
            return is_plain
        is_whole = op.get_attr("begin_mask") & op.get_attr("end_mask") & ~op.get_attr("shrink_axis_mask") & 1 << last
        return bool(is_whole) and strides[last] == 1
    if op.type == "GatherNd":
        depth = (describe(op.inputs[1]).dimensions or (None,))[-1]
        return isinstance(depth, int) and depth <= last
    if op.type == "Slice":
        return whole.dimensions is not None and (describe(op.inputs[2]).values or (0,))[-1] in (-1, whole.dimensions[-1])
    axis = (describe(op.inputs[2]).values or (None,))[0] if op.type == "GatherV2" else 0
    return isinstance(axis, int) and axis % (last + 1) != last


def _moves_rows(op: Any, describe: Describe) -> bool:
    """Whether an op that moves elements keeps each row together."""
    before, after = describe(op.inputs[0]), describe(op.outputs[0])
    if op.type == "Transpose":
        order = describe(op.inputs[1]).values
        return bool(order) and order is not None and order[-1] == len(order) - 1
    last = (before.dimensions or ())[-1:]
    return bool(last) and last == (after.dimensions or ())[-1:] != (None,)


def _fits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same dimensions."""
    return one.dimensions is not None and one.dimensions == other.dimensions


def _is_column(one: Tensor, other: Tensor) -> bool:
    """Whether a tensor has one element for each row of another."""
    sizes, others = one.dimensions or (), other.dimensions or ()
    return len(sizes) == len(others) > 1 and sizes[:-1] == others[:-1] and sizes[-1] == 1


def _keeps_rows(op: Any, describe: Describe) -> bool:
    """Whether an op computes each row of its result from the same row of its first input."""
    if op.type in _REDUCING:
        return _is_column(describe(op.outputs[0]), describe(op.inputs[0]))
    if MATMUL.match(op.type):
        rows, results = ((describe(tensor).dimensions or (None,))[:-1] for tensor in (op.inputs[0], op.outputs[0]))
        return None not in rows and rows == results and not op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
    if op.type != "Einsum":
        return False
    factors, _, result = equation(op)[0].partition("->")
    first, _, second = factors.partition(",")
    return (
        result[:-1] == first[:-1] and first[-1:] not in result and result[-1:] in second and not set(first[:-1]) & set(second)
    )


def merge_needed_parts(
    one: Mapping[str, tuple[float, str] | None], other: Mapping[str, tuple[float, str] | None]
) -> dict[str, tuple[float, str] | None]:
    """Return the parts of the ops of two graphs, all of an op whose name both have."""
    return {**one, **other, **{name: one[name] if one[name] == other[name] else None for name in one.keys() & other.keys()}}

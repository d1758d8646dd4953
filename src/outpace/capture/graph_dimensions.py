# SPDX-License-Identifier: Apache-2.0
"""How the open dimensions of an op's results follow from those of its operands, by kind of op.

A rule says what holds at run time whatever the sizes are; where none does, a dimension is not
known. Broadcasting is the exception: an operand of size 1 would take the size of the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_DTYPES = {
    "float": "f",
    "bfloat": "bf",
    "int": "s",
    "uint": "u",
    "bool": "pred",
    "complex": "c",
}  # short names, as HLO has them
_DTYPE = re.compile(r"([a-z]+)(\d*)$")
ELEMENTWISE = re.compile(
    r"(Bias)?Add(V2|N)?$|Sub$|Mul$|RealDiv$|DivNoNan$|Neg$|Abs$|Sign$|Exp(m1)?$|Log(1p)?$|Pow$|R?[Ss]qrt(Grad)?$|Square(dDifference)?$|"
    r"Reciprocal(Grad)?$|Maximum$|Minimum$|(Tanh|Sigmoid|Relu6?|LeakyRelu|Elu|Selu|Softplus|Softsign)(Grad)?$|Erfc?$|Sin$|Cos$|Select(V2)?$|"
    r"(Greater|Less)(Equal)?$|(Not)?Equal$|Logical|Cast$|(Log)?Softmax$|ClipByValue$|(Zeros|Ones)Like$|Floor|Ceil$|Round$|IsFinite$|Identity$|"
    r"StopGradient$|PreventGradient$"
)
_WINDOWS = re.compile(r"(Depthwise)?Conv|(Max|Avg)Pool|FusedBatchNorm|Resize")  # ops that keep the first dimension
_MOVING = re.compile(
    r"Transpose$|ExpandDims$|Squeeze$|Sum$|Mean$|Max$|Min$|Prod$|All$|Any$|ArgM|Pack$|OneHot$|Cum"
)  # or leave it out
_LOOKUP = re.compile(r"(Resource)?Gather(V2)?$")
MATMUL = re.compile(r"(Batch)?MatMul(V\d)?$")
_JOINING = ("ConcatV2", "Split", "SplitV")


@dataclass(frozen=True)
class Symbol:
    """An open dimension of an argument, times a whole number."""

    number: int
    factor: int = 1

    def __str__(self) -> str:
        return f"{self.factor if self.factor != 1 else ''}s{self.number}"


Dimension = int | Symbol | None
Dimensions = tuple[Dimension, ...] | None  # None where not even their number is known


@dataclass(frozen=True)
class Tensor:
    """What is known of a tensor: the name of its type, its dimensions, and, of a number or vector
    of sizes, its values.
    """

    dtype: str
    dimensions: Dimensions
    values: tuple[Dimension, ...] | None = None

    @property
    def open_dimensions(self) -> list[Dimension]:
        """The dimensions whose sizes do not stand in the graph."""
        return [None] if self.dimensions is None else [one for one in self.dimensions if not isinstance(one, int)]

    def __str__(self) -> str:
        sizes = "?" if self.dimensions is None else ",".join("?" if one is None else str(one) for one in self.dimensions)
        return f"{self.dtype}[{sizes}]"


def static_shape(tensor: Any) -> tuple[int | None, ...] | None:
    """Return the shape of a tensor, with None for open dimensions; None where not even the number
    of its dimensions is known.
    """
    shape = tensor.shape
    return None if shape.rank is None else tuple(shape.as_list())


def describe(tensor: Any, dimensions: Dimensions) -> Tensor:
    """Return what is known of a tensor."""
    letters = _DTYPE.fullmatch(tensor.dtype.name)
    return Tensor(_DTYPES.get(letters[1], letters[1]) + letters[2] if letters else tensor.dtype.name, dimensions)


def fill(shape: Dimensions, other: Dimensions) -> Dimensions:
    """Return a shape with its open dimensions from other dimensions of as many."""
    if shape is None or other is None or len(other) != len(shape):
        return shape
    return tuple(one if size is None else size for size, one in zip(shape, other, strict=True))


def agree(one: Dimensions, other: Dimensions) -> Dimensions:
    """Return the dimensions in which two tensors agree."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def _only(dimensions: Sequence[Dimension]) -> Dimension:
    """Return the dimension that all of several are; None where they differ."""
    different = set(dimensions)
    return different.pop() if len(different) == 1 else None


Rule = Callable[[Any, list[Tensor], tuple[int | None, ...]], Dimensions]


def _elementwise(op: Any, inputs: list[Tensor], shape: tuple[int | None, ...]) -> Dimensions:
    """Operands have equal sizes along each dimension, counted from the last, or size 1. The first
    operand of the old Select counts from the first dimension.
    """
    inputs = inputs[1:] if op is not None and op.type == "Select" else inputs
    found: list[Dimension] = []
    for place in range(len(shape), 0, -1):
        sizes = [one.dimensions[-place] for one in inputs if one.dimensions is not None and len(one.dimensions) >= place]
        found.append(_only([size for size in sizes if isinstance(size, Symbol)]))
    return tuple(found)


def _first_dimension(op: Any, inputs: list[Tensor], shape: tuple[int | None, ...]) -> Dimensions:
    """The first dimension is that of the operands of as many dimensions; windows change others."""
    sizes = [one.dimensions[0] for one in inputs if one.dimensions is not None and len(one.dimensions) == len(shape)]
    return (_only([size for size in sizes if not isinstance(size, int)]), *(None for _ in shape[1:]))


def _same_one(op: Any, inputs: list[Tensor], shape: tuple[int | None, ...]) -> Dimensions:
    """The one open dimension is that of all operands, wherever it stands."""
    opened = [one.open_dimensions for one in inputs if one.open_dimensions]
    if shape.count(None) != 1 or any(len(one) != 1 for one in opened):
        return None
    return tuple(_only([size for one in opened for size in one]) if size is None else size for size in shape)


def _joined(op: Any, inputs: list[Tensor], shape: tuple[int | None, ...]) -> Dimensions:
    """A closed dimension that changed is the one that is joined or split; the open one stays."""
    before = next((one.dimensions for one in inputs if one.dimensions is not None and len(one.dimensions) == len(shape)), ())
    changed = any(isinstance(a, int) and b is not None and a != b for a, b in zip(before, shape, strict=False))
    return _same_one(op, inputs, shape) if changed else None


def _looked_up(op: Any, inputs: list[Tensor], shape: tuple[int | None, ...]) -> Dimensions:
    """The dimensions of the indices stand in place of the one along which they look up; the first
    ones may be those of both.
    """
    indices = inputs[1].dimensions if len(inputs) > 1 else None
    table = shape[len(indices or ()) :] if inputs[0].dtype == "resource" else inputs[0].dimensions
    axis: Dimension = 0
    shared = 0
    if op.type == "GatherV2":
        axis, shared = (inputs[2].values or (None,))[0], op.get_attr("batch_dims")
    if indices is None or table is None or not isinstance(axis, int):
        return None
    if inputs[0].dtype == "resource":
        return (*indices, *table)
    axis %= max(len(table), 1)
    return (*table[:axis], *indices[shared:], *table[axis + 1 :])


def _slice_dimensions(op: Any, inputs: list[Tensor], shape: tuple[int | None, ...]) -> Dimensions:
    """A dimension of which a slice takes all stays."""
    before = inputs[0].dimensions
    masks = {name: op.get_attr(f"{name}_mask") for name in ("begin", "end", "shrink_axis", "ellipsis", "new_axis")}
    if before is None or masks["ellipsis"] or masks["new_axis"]:
        return None
    strides, found = inputs[3].values or (), list[Dimension]()
    for place, size in enumerate(before):
        bit = 1 << place
        is_whole = place >= len(strides) or (masks["begin"] & masks["end"] & bit and strides[place] == 1)
        if not masks["shrink_axis"] & bit:
            found.append(size if is_whole and strides else None)
    return tuple(found)


def _reshaped(op: Any, inputs: list[Tensor], shape: tuple[int | None, ...]) -> Dimensions:
    """The dimensions are the values of the second input, and the number of elements stays."""
    before, asked = inputs[0], inputs[1].values if len(inputs) > 1 else None
    shape_asked = fill(shape, tuple(None if size == -1 else size for size in asked) if asked is not None else None)
    if shape_asked is None or None not in shape_asked or any(isinstance(size, Symbol) for size in shape_asked):
        return shape_asked
    shape = tuple(size if isinstance(size, int) else None for size in shape_asked)
    if before.dimensions is None or shape.count(None) != 1 or len(before.open_dimensions) != 1:
        return None
    symbol = before.open_dimensions[0]
    size = math.prod(one for one in shape if one is not None)
    if not isinstance(symbol, Symbol) or not size:
        return None
    factor, rest = divmod(symbol.factor * math.prod(one for one in before.dimensions if isinstance(one, int)), size)
    return None if rest or not factor else tuple(Symbol(symbol.number, factor) if one is None else one for one in shape)


def _multiplied(op: Any, inputs: list[Tensor], shape: tuple[int | None, ...]) -> Dimensions:
    """The rows are those of the first matrix, and the columns those of the second."""
    left, right = (one.dimensions for one in inputs[:2])
    if left is None or right is None or min(len(left), len(right), len(shape)) < 2:
        return None
    names = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
    turned = [bool(op.get_attr(name)) for name in names]
    stacks = _elementwise(op, [Tensor("", left[:-2]), Tensor("", right[:-2])], shape[:-2])
    return (*(stacks or ()), left[-1 if turned[0] else -2], right[-2 if turned[1] else -1])


def _loss_dimensions(op: Any, inputs: list[Tensor], shape: tuple[int | None, ...]) -> Dimensions:
    """A loss of each row of logits, or a gradient for each logit. Labels may repeat the logits."""
    logits, labels = inputs[0].dimensions, inputs[1].dimensions
    if logits is None or (labels != logits and not op.type.startswith("Sparse")):
        return None
    return logits[: len(shape)]


def _summed(op: Any, inputs: list[Tensor], shape: tuple[int | None, ...]) -> Dimensions:
    """Each letter of the equation has one size."""
    left, _, right = equation(op)[0].partition("->")
    sizes: dict[str, list[Dimension]] = {}
    for letters, one in zip(left.split(","), inputs, strict=False):
        if one.dimensions is None or len(letters) != len(one.dimensions):
            return None
        for letter, size in zip(letters, one.dimensions, strict=True):
            sizes.setdefault(letter, []).append(size)
    return tuple(_only(sizes.get(letter, [None])) for letter in right)


def equation(op: Any) -> tuple[str, ...]:
    """Return the equation of an `Einsum`."""
    return (op.get_attr("equation").decode().replace(" ", ""),) if op.type == "Einsum" else ()


_RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (ELEMENTWISE, _elementwise),
    (MATMUL, _multiplied),
    (_WINDOWS, _first_dimension),
    (_LOOKUP, _looked_up),
    (_MOVING, _same_one),
    (re.compile("Reshape$"), _reshaped),
    (re.compile("StridedSlice$"), _slice_dimensions),
    (re.compile("(Sparse)?SoftmaxCrossEntropyWithLogits$"), _loss_dimensions),
    (re.compile("Einsum$"), _summed),
    (re.compile("|".join(_JOINING)), _joined),
)


def find_dimensions(op: Any, inputs: list[Tensor], output: Any) -> Dimensions:
    """Return the dimensions of an output of an op."""
    shape = static_shape(output)
    if shape is None or None not in shape:
        return shape
    rule = next((rule for pattern, rule in _RULES if pattern.match(op.type)), None)
    return fill(shape, rule(op, inputs, shape)) if rule is not None else shape

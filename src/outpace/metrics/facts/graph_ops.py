# SPDX-License-Identifier: Apache-2.0
"""Operations and bytes of TensorFlow's ops by the texts of `GraphShapes`.

A product's operations follow from the sizes of its operands and its result alone: of the product of
(m, k) and (k, n), k squared is the product of the operands' sizes over the result's. An op whose
arithmetic is not known here has an unknown cost, as has one of which a dimension is not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from outpace._lazy import compile_lazily
from outpace.store.record import AFTER
from outpace.timeline.hlo.cost import Cost, product_cost
from outpace.timeline.hlo.ops import NO_OP, HloOp

_SHAPE = compile_lazily(r"([a-z]+)(\d{0,4})\[([^\]]*)\]")
_DIMENSION = compile_lazily(r"(\d{0,12})(b?)")
_FUSED = compile_lazily(r"_(Fused|Mkl)")  # ops that TensorFlow's optimizer puts in place of others
_MATMUL = compile_lazily(r"(Batch)?MatMul(V\d)?$")
_CONVOLUTION = compile_lazily(r"(?:DepthwiseConv2dNative|Conv[23]D)(?:Backprop(Input|Filter))?(?:V\d)?$")
# ops that read each operand once, and write each result once
_DENSE = compile_lazily(
    r"Bias|Softmax|LogSoftmax|Cross|SparseSoftmax|Transpose$|Cast$|Add|Sub$|Mul$|RealDiv$|Div|Neg$|Abs$|Sign$|Exp|Log|Pow$|R?[Ss]q|"
    r"Reciprocal|Maximum$|Minimum$|Tanh|Sigmoid|Relu|LeakyRelu|Elu|Selu|Softplus|Softsign|Erf|Sin$|Cos$|Select|Greater|Less|Equal$|"
    r"NotEqual$|Clip|Floor|Ceil|Round|IsFinite|Sum$|Mean$|Max$|Min$|Prod$|All$|Any$|Cum|FusedBatchNorm|(Max|Avg)Pool|Pack$|ConcatV2$"
)
_ARROW = " -> "
_MOST_BITS, _MOST = 1024, 1e15  # maximum bits of an element, and elements; more is damage


class _Shape(NamedTuple):
    """The shape of an operand or result: the kind of its elements (`f`), the bits of one, its
    sizes.
    """

    kind: str
    bits: int
    dimensions: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.dimensions)

    @property
    def bytes(self) -> float:
        return self.size * self.bits / 8


def find_graph_op(text: str, op_type: str, batch: int) -> HloOp:
    """Return the op of a text, with the cost of an execution; `NO_OP` where that is not known.

    op_type: type of the op in the profile. Where TensorFlow computes several ops as one, that is
        the product among them.
    batch: size of a batch; 0 where not known.
    """
    own, _, product = text.partition(f" {AFTER} ")
    chosen = (product or own) if _FUSED.match(op_type) else own
    kind, operands, results = _parse(chosen, batch)
    if not results or not (chosen is not own or kind == op_type or _FUSED.match(op_type)):
        return NO_OP
    moved = sum(shape.bytes for shape in (*operands, *results))
    found = _product_flops(chosen, kind, operands, results[0])
    if found:
        name = "convolution" if "Conv" in kind else "dot"
        return HloOp(
            kind, precision_bits=_precision(operands), cost=product_cost(found, moved), product=name, description=chosen
        )
    if _DENSE.match(kind) and not _FUSED.match(op_type):
        return HloOp(kind, precision_bits=_precision(operands), cost=Cost(0.0, 0.0, moved), description=chosen)
    return NO_OP


def solve_batch(text: str, shape: str) -> int:
    """Return the size of a batch for which the result of an op has a shape (`[64,10]`); 0 where
    there is none, or the result has no open dimension.
    """
    results = text.partition(f" {AFTER} ")[0].rpartition(_ARROW)[2]
    match = _SHAPE.match(results)
    dimensions, sizes = match[3].split(",") if match else [], shape.strip("[]").split(",")
    found = set()
    for dimension, size in zip(dimensions, sizes, strict=False) if len(dimensions) == len(sizes) else ():
        if (parts := _DIMENSION.fullmatch(dimension)) and parts[2] and size.isdigit():
            batch, rest = divmod(int(size), int(parts[1] or 1))
            found.add(0 if rest else batch)
        elif dimension != size:
            return 0
    return found.pop() if len(found) == 1 else 0


def _parse(text: str, batch: int) -> tuple[str, list[_Shape], list[_Shape]]:
    """Return (type, operands, results) of an op; no results where a dimension is not known."""
    before, _, after = text.partition(_ARROW)
    operands, results = (
        [
            _Shape(kind, int(bits or 8), sizes)
            for kind, bits, inner in _SHAPE.findall(part)
            if (sizes := _sizes(inner, batch)) is not None
        ]
        for part in (before, after)
    )
    is_known = len(operands) == before.count("[") and len(results) == after.count("[")
    is_sane = all(shape.bits <= _MOST_BITS and shape.size <= _MOST for shape in (*operands, *results))
    return before.partition(" ")[0], operands, results if is_known and is_sane else []


def _sizes(text: str, batch: int) -> tuple[int, ...] | None:
    """Return the sizes of a shape; None where one is not known."""
    sizes = []
    for dimension in text.split(",") if text else ():
        match = _DIMENSION.fullmatch(dimension)
        if match is None or not dimension or (match[2] and not batch):
            return None
        sizes.append(int(match[1] or 1) * (batch if match[2] else 1))
    return tuple(sizes)


def _product_flops(text: str, kind: str, operands: Sequence[_Shape], result: _Shape) -> float:
    """Return the operations of a matrix product or convolution; 0 for other ops."""
    shapes = [shape.dimensions for shape in operands]
    if _MATMUL.match(kind) and len(shapes) >= 2 and min(map(len, (*shapes[:2], result.dimensions))) >= 2:
        inner = math.prod(shapes[0][-2:]) * math.prod(shapes[1][-2:]) / max(math.prod(result.dimensions[-2:]), 1)
        return 2.0 * result.size * math.sqrt(inner)
    if (match := _CONVOLUTION.match(kind)) and len(shapes) >= 2:
        kernel = {"Input": shapes[1], "Filter": result.dimensions}.get(match[1] or "", shapes[1])
        images = operands[2] if match[1] and len(operands) > 2 else result
        taps = math.prod(kernel[:-2]) if kind.startswith("Depthwise") else math.prod(kernel[:-1])
        return 2.0 * images.size * taps
    if kind == "Einsum":
        return _einsum_flops(text.split(" ")[1], [*shapes, result.dimensions])
    return 0.0


def _einsum_flops(equation: str, shapes: Sequence[tuple[int, ...]]) -> float:
    """Return the operations of an `Einsum` of two operands; 0 for other equations."""
    left, _, right = equation.partition("->")
    letters = [*left.split(","), right]
    if len(letters) != len(shapes) or len(letters) != 3 or any(len(a) != len(b) for a, b in zip(letters, shapes, strict=True)):
        return 0.0
    sizes = {
        letter: size for names, shape in zip(letters, shapes, strict=True) for letter, size in zip(names, shape, strict=True)
    }
    return 2.0 * math.prod(sizes.values())


def _precision(operands: Sequence[_Shape]) -> int:
    """Return the bits of the numbers that an op computes with; 0 for integers."""
    return min((shape.bits for shape in operands if shape.kind in ("f", "bf")), default=0)

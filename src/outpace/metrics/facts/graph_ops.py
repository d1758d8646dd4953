# SPDX-License-Identifier: Apache-2.0
"""Operations and bytes of TensorFlow's ops by the texts of `GraphShapes`.

A product's operations follow from the sizes of its operands and its result alone: of the product of
(m, k) and (k, n), k squared is the product of the operands' sizes over the result's. An op whose
arithmetic or bytes are not known here, or of which a dimension is not known, has an unknown cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from outpace._lazy import compile_lazily
from outpace.store.record import AFTER
from outpace.timeline.hlo.cost import Cost, product_cost
from outpace.timeline.hlo.ops import NO_OP, HloOp

_SHAPE = compile_lazily(r"(?<![a-z0-9])([a-z]{1,5})(\d{0,3})\[([^\]\[]*)\]")
_DIMENSION = compile_lazily(r"(\d{0,12})(?:s(\d{1,6}))?")
_REPLACEMENT = compile_lazily(r"_(?:MklNative|Mkl)?(?:Fused)?(?=[A-Z])")  # ops that the optimizer puts in place of others
_MATMUL = compile_lazily(r"(Batch)?MatMul(V\d)?$")
_CONVOLUTION = compile_lazily(r"(?:DepthwiseConv2dNative|Conv[23]D)(?:Backprop(Input|Filter))?(?:V\d)?$")
# ops with an operation or less for each element that they read or write, each of them once
_COUNTED = compile_lazily(
    r"(Bias)?Add(V2|N|Grad)?$|BiasAddGrad$|Sub$|Mul$|RealDiv$|Neg$|Abs$|Sign$|Square(dDifference)?$|Maximum$|Minimum$|Relu6?(Grad)?$|"
    r"LeakyRelu(Grad)?$|Select(V2)?$|(Greater|Less)(Equal)?$|(Not)?Equal$|Logical(And|Or|Not)$|Cast$|ClipByValue$|IsFinite$|"
    r"Sum$|Mean$|Max$|Min$|Prod$|All$|Any$|Cum(sum|prod)$|Transpose$|Pack$|ConcatV2$"
)
# ops that read and write as these do, and take functions, or more operations than are counted here
_UNCOUNTED = compile_lazily(
    r"(Log)?Softmax|SparseSoftmax|Exp(m1)?$|Log(1p)?$|Pow$|R?[Ss]qrt(Grad)?$|Reciprocal|(Tanh|Sigmoid|Elu|Selu|Softplus|Softsign)(Grad)?$|"
    r"Erf|Sin$|Cos$|Floor|Ceil$|Round$|FusedBatchNorm|(Max|Avg)Pool"
)
_ARROW = " -> "
_MOST_ELEMENTS = 1e15  # maximum elements of an array; more is damage
_PAIRING = compile_lazily(r"(?:Sub|SquaredDifference|Mul)$")
_MANY_PAIRS = 8  # minimum ratio of an array of pairs to the larger of the two arrays that it is made of
_COMPLEX = "c"
_FLOATS = ("f", "bf", _COMPLEX)
Sizes = Mapping[int, int]  # by number of a symbol


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


def find_graph_op(text: str, op_type: str, sizes: Sizes) -> HloOp:
    """Return the op of a text, with the cost of an execution; `NO_OP` where that is not known.

    op_type: type of the op in the profile. Where TensorFlow computes several ops as one, it may be
        that of the product among them.
    sizes: sizes of the symbols that are known.
    """
    chosen = _choose_text(text, op_type)
    kind, operands, results = _parse(chosen, sizes)
    if not results:
        return NO_OP
    moved = sum(shape.bytes for shape in (*operands, *results))
    of_floats = [shape for shape in operands if shape.kind in _FLOATS]
    is_complex = any(shape.kind == _COMPLEX for shape in of_floats)
    bits = min((shape.bits // (1 + is_complex) for shape in of_floats), default=0)
    if flops := _product_flops(chosen, kind, operands, results[0]):
        name = "convolution" if "Conv" in kind else "dot"
        cost = product_cost(flops, moved)
        return HloOp(kind, precision_bits=bits, cost=cost, product=name, is_complex=is_complex) if of_floats else NO_OP
    return HloOp(kind, precision_bits=bits, cost=Cost(bytes=moved)) if _COUNTED.match(kind) or _UNCOUNTED.match(kind) else NO_OP


def counts_arithmetic(op: HloOp) -> bool:
    """Whether the least time of an op of TensorFlow tells of its arithmetic, not of its bytes
    alone.
    """
    return op.has_product or bool(_COUNTED.match(op.opcode))


def find_pair_sizes(text: str, sizes: Sizes) -> tuple[int, ...]:
    """Return the sizes of the array of all pairs that an op makes by broadcasting two arrays, each
    of which has few of its elements; none for other ops.
    """
    kind, operands, results = _parse(text.partition(f" {AFTER} ")[0], sizes)
    if not _PAIRING.match(kind) or len(operands) != 2 or not results:
        return ()
    most, result = max(shape.size for shape in operands), results[0]
    is_pairs = min(shape.size for shape in operands) > 1 and result.size >= _MANY_PAIRS * most
    return result.dimensions if is_pairs else ()


def count_elements(text: str, sizes: Sizes) -> tuple[int, ...]:
    """Return the numbers of elements of an op's results; none where one is not known."""
    _, _, results = _parse(_ARROW + text.partition(f" {AFTER} ")[0].partition(_ARROW)[2], sizes)
    return tuple(shape.size for shape in results)


def solve_symbols(text: str, shape: str) -> dict[int, int]:
    """Return the sizes of the symbols for which the result of an op has a shape (`[64,10]`), by
    number; none where no sizes give that shape.
    """
    match = _SHAPE.match(text.partition(f" {AFTER} ")[0].rpartition(_ARROW)[2])
    dimensions, sizes = match[3].split(",") if match else [], shape.strip("[]").split(",")
    found: dict[int, int] = {}
    for dimension, size in zip(dimensions, sizes, strict=False) if len(dimensions) == len(sizes) else ():
        parts = _DIMENSION.fullmatch(dimension)
        if parts and parts[2] and size.isdigit():
            value, rest = divmod(int(size), max(int(parts[1] or 1), 1))
            if rest or found.setdefault(int(parts[2]), value) != value:
                return {}
        elif dimension not in (size, "?"):
            return {}
    return found


def _choose_text(text: str, op_type: str) -> str:
    """Return the text, of an op and of a product before it, that is of a type; "" for none."""
    own, _, product = text.partition(f" {AFTER} ")
    if own.partition(" ")[0] == op_type:
        return own
    match = _REPLACEMENT.match(op_type)
    replaced = op_type[match.end() :] if match else ""
    names = [name for name in (replaced, f"Fused{replaced}") if replaced]
    return next((one for one in (own, product) if one and any(_is_of(one.partition(" ")[0], name) for name in names)), "")


def _is_of(kind: str, name: str) -> bool:
    """Whether a replacement is of a type: their names agree but for a version, or what it does
    besides (`Conv2DBackpropFilterWithBias`).
    """
    return kind in (name, f"{name}V2", f"{name}V3") or name in (f"{kind}WithBias", f"{kind}V2")


def _parse(text: str, sizes: Sizes) -> tuple[str, list[_Shape], list[_Shape]]:
    """Return (type, operands, results) of an op; no results where a dimension is not known."""
    before, _, after = text.partition(_ARROW)
    operands, results = (
        [
            _Shape(kind, int(bits or 8), dimensions)
            for kind, bits, inner in _SHAPE.findall(part)
            if (dimensions := _dimensions(inner, sizes)) is not None
        ]
        for part in (before, after)
    )
    is_known = len(operands) == before.count("[") and len(results) == after.count("[")
    is_sane = all(shape.size <= _MOST_ELEMENTS for shape in (*operands, *results))
    return before.partition(" ")[0], operands, results if is_known and is_sane else []


def _dimensions(text: str, sizes: Sizes) -> tuple[int, ...] | None:
    """Return the sizes of a shape; None where one is not known."""
    found = []
    for dimension in text.split(",") if text else ():
        match = _DIMENSION.fullmatch(dimension)
        if match is None or not dimension or (match[2] and int(match[2]) not in sizes):
            return None
        found.append(int(match[1] or 1) * (sizes[int(match[2])] if match[2] else 1))
    return tuple(found)


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
    return _einsum_flops(text.split(" ")[1], [*shapes, result.dimensions]) if kind == "Einsum" else 0.0


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

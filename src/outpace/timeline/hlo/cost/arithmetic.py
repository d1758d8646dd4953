# SPDX-License-Identifier: Apache-2.0
"""Arithmetic operations of one execution of an instruction, without those of fusions, calls and
loops.

The rules are those of XLA's own count (`HloCostAnalysis` of openxla/xla), with two exceptions: an
FFT of n numbers has 5 n log2 n operations (half of it where its input or output is real), which is
what its literature counts (Frigo and Johnson, FFTW), while XLA counts 8; and calls of libraries are
counted at all (`library_calls`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from outpace.timeline.hlo.cost.convolutions import convolution_flops
from outpace.timeline.hlo.graph import Computation, Instruction
from outpace.timeline.hlo.shape import Shape

_ELEMENTWISE = frozenset(
    (
        *("abs", "add", "and", "bitcast-convert", "ceil", "clamp", "compare", "complex", "convert", "count-leading-zeros"),
        *("divide", "floor", "imag", "is-finite", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "real"),
        *("reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even", "select", "shift-left"),
        *("shift-right-arithmetic", "shift-right-logical", "sign", "stochastic-convert", "subtract", "xor"),
    )
)
_REDUCING = frozenset(("reduce", "reduce-window", "select-and-scatter", "scatter", "map"))
DOTS = frozenset(("dot", "ragged-dot", "scaled-dot"))
PRODUCTS = DOTS | {"convolution"}
"""Opcodes of matrix products and convolutions."""
_LHS_CONTRACTING = 1  # field of DotDimensionNumbers
_FFT_OPERATIONS = 5  # per element and level of a complex FFT


def arithmetic_flops(instruction: Instruction, computation_flops: Callable[[Computation], float]) -> tuple[float, float]:
    """Return (operations, of these those of matrix products and convolutions).

    `computation_flops` returns the operations of one run of a computation, for instructions that
    apply one to their elements.
    """
    opcode = instruction.opcode
    if opcode in PRODUCTS:
        product = float(dot_flops(instruction) if opcode in DOTS else convolution_flops(instruction))
        return product, product
    if not instruction.shapes:
        return 0.0, 0.0
    elements = instruction.shapes[0].element_count
    if opcode in _ELEMENTWISE:
        return float(elements), 0.0
    if opcode in _REDUCING:
        return _applied_flops(instruction, computation_flops), 0.0
    if opcode.startswith("all-reduce") and not opcode.endswith("-done"):
        return float(sum(shape.element_count for shape in instruction.shapes)), 0.0
    rule = _RULES.get(opcode)
    source = instruction.operand_shapes[:1]
    return (float(rule(instruction, source[0])), 0.0) if rule is not None and source else (0.0, 0.0)


def dot_flops(instruction: Instruction) -> int:
    """Return the operations of a matrix product, a multiply-add as two."""
    arrays = [operand.shapes[0] for operand in instruction.operands[:1] if operand.shapes]
    contracted = instruction.dot_dimension_numbers.numbers(_LHS_CONTRACTING)
    return contraction_flops(instruction.shapes[0], arrays[0], contracted) if arrays and instruction.shapes else 0


def contraction_flops(result: Shape, left: Shape, contracted: list[int]) -> int:
    """Return the operations of a product that sums over some dimensions of its left operand."""
    if not left.element_count:
        return 0
    return 2 * result.element_count * math.prod(left.dimensions[d] for d in contracted if 0 <= d < len(left.dimensions))


def _applied_flops(instruction: Instruction, computation_flops: Callable[[Computation], float]) -> float:
    """Return the operations of an instruction that applies computations to elements."""
    if not instruction.called or not instruction.operand_shapes:
        return 0.0
    result, source = instruction.shapes[0].element_count, instruction.operand_shapes[0].element_count
    window = min(math.prod(dimension.size for dimension in instruction.window), source)
    once = computation_flops(instruction.called[0])
    if instruction.opcode == "reduce":
        return once * (source - result)
    if instruction.opcode == "reduce-window":
        return once * _window_count(instruction, result, window)
    if instruction.opcode == "map":
        return once * result
    if instruction.opcode == "scatter":
        updates = instruction.operand_shapes[len(instruction.operand_shapes) // 2 + 1 :]
        return once * updates[0].element_count if updates else 0.0
    chosen = instruction.operand_shapes[1].element_count if len(instruction.operand_shapes) > 1 else 0
    then = computation_flops(instruction.called[1]) if len(instruction.called) > 1 else 0.0
    return chosen * (once * (window - 1) + then)


def _window_count(instruction: Instruction, results: int, window: int) -> float:
    """Return how often a `reduce-window` applies its computation. One whose window covers the whole
    dimension from every place of it is a reduction whose result is repeated.
    """
    sliding = [(n, d) for n, d in enumerate(instruction.window) if d.size != 1]
    padded = [d for d in instruction.window if d.low or d.high]
    if len(sliding) == len(padded) == 1 and len(instruction.shapes) == 1:
        number, dimension = sliding[0]
        sizes = instruction.shapes[0].dimensions
        length = sizes[number] if number < len(sizes) else 0
        if 0 < dimension.low == dimension.high == length - 1 and dimension.size == 2 * dimension.low + 1:
            return results // length + length - 1
    return results * (window - 1)


def _sort_flops(instruction: Instruction, source: Shape) -> float:
    """Return the comparisons of a sort: n log2 n."""
    return source.element_count * _ceil_log2(source.element_count)


def _ceil_log2(count: int) -> int:
    return max(count - 1, 0).bit_length()


def _fft_flops(instruction: Instruction, source: Shape) -> float:
    """Return the operations of a batch of FFTs: 5 n log2 n each, half of it for real numbers."""
    length = math.prod(instruction.fft_lengths)
    if length < 2:
        return 0.0
    is_real = "R" in instruction.fft_kind
    transformed = instruction.shapes[0] if instruction.fft_kind == "IRFFT" else source
    flops = _FFT_OPERATIONS * transformed.element_count * math.log2(length)
    return flops / 2 if is_real else flops


def _cholesky_flops(instruction: Instruction, source: Shape) -> float:
    """Return the operations of Cholesky decompositions: n^3 / 3 each."""
    return source.element_count * (source.dimensions[-1] if source.dimensions else 0) // 3


def _solve_flops(instruction: Instruction, source: Shape) -> float:
    """Return the operations of triangular systems as XLA counts them: twice the n^2 per right-hand
    side that a substitution needs.
    """
    sides = instruction.operand_shapes[1].element_count if len(instruction.operand_shapes) > 1 else 0
    return 2 * sides * (source.dimensions[-1] if source.dimensions else 0)


_RULES: dict[str, Callable[[Instruction, Shape], float]] = {
    "sort": _sort_flops,
    "fft": _fft_flops,
    "cholesky": _cholesky_flops,
    "triangular-solve": _solve_flops,
}

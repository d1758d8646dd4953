# SPDX-License-Identifier: Apache-2.0
"""Which dimension of its result each dimension of an op's operand becomes, and which ops make 0 of
0.
"""

from __future__ import annotations

from outpace.model.files import parse_json
from outpace.timeline.hlo.graph import Instruction

MERGING = ("add", "subtract", "or", "xor", "maximum", "minimum", "select")
"""Ops whose result is 0 where all that they take is."""
OF_FIRST = ("divide", "remainder")
"""Ops whose result is 0 where the first operand is."""
KEEPING = frozenset(
    ("negate", "abs", "sign", "sqrt", "cbrt", "tanh", "sine", "tan", "convert", "copy", "floor", "ceil", "reduce-precision")
) | {"exponential-minus-one", "log-plus-one", "round-nearest-afz", "round-nearest-even", "real", "imag"}
"""Ops of one operand whose result is 0 for 0."""
_ELEMENTWISE = (
    KEEPING
    | {*MERGING, *OF_FIRST, "multiply", "and", "not", "exponential", "log", "power", "rsqrt", "logistic", "cosine", "erf"}
    | {"atan2", "compare", "is-finite", "clamp", "complex", "shift-left", "shift-right-logical", "shift-right-arithmetic"}
)
RESHAPING = ("reshape", "bitcast")
"""Ops that give an array another shape, and keep the order of its elements."""
_DOT_FIELDS = (1, 2, 3, 4)  # DotDimensionNumbers: contracting dimensions of both operands, batch dimensions of both
_GEMM_KEYS = ("lhs_contracting_dimensions", "rhs_contracting_dimensions", "lhs_batch_dimensions", "rhs_batch_dimensions")


def result_dimensions(i: Instruction, at: int) -> list[int | None] | None:
    """Return the dimension of the result that each dimension of an operand becomes, None for one
    that is gone; None where the op mixes its dimensions.
    """
    rank = len(i.operands[at].shapes[0].dimensions)
    if i.opcode in _ELEMENTWISE or (i.opcode in ("slice", "dynamic-slice", "reverse") and at == 0):
        return list(range(rank)) if rank == len(i.shapes[0].dimensions) else None
    if i.opcode == "transpose":
        order = i.dimensions
        return [order.index(dimension) if dimension in order else None for dimension in range(rank)]
    if i.opcode == "broadcast":
        return list[int | None](i.dimensions) if len(i.dimensions) == rank else None
    if i.opcode == "reduce" and at == 0:
        kept = [dimension for dimension in range(rank) if dimension not in i.dimensions]
        return [kept.index(dimension) if dimension in kept else None for dimension in range(rank)]
    if i.opcode == "concatenate":
        along = i.dimensions[:1]
        return [None if dimension in along else dimension for dimension in range(rank)]
    numbers = dot_dimensions(i)
    if numbers is None or at > 1:
        return None
    contracted, batch = numbers[at], numbers[2 + at]
    free = [dimension for dimension in range(rank) if dimension not in contracted and dimension not in batch]
    first = len(batch)
    if at == 1:
        left = len(i.operands[0].shapes[0].dimensions) if i.operands[0].shapes else 0
        first += left - len(numbers[0]) - len(numbers[2])
    return [
        batch.index(dimension) if dimension in batch else first + free.index(dimension) if dimension in free else None
        for dimension in range(rank)
    ]


def dot_dimensions(i: Instruction) -> list[list[int]] | None:
    """Return the dimensions of a product: contracting ones of both operands, batch ones of both;
    None for other instructions. XLA writes those of a call of cuBLAS into its configuration.
    """
    if i.opcode == "dot":
        return [i.dot_dimension_numbers.numbers(field) for field in _DOT_FIELDS]
    if i.opcode != "custom-call" or "gemm" not in i.custom_call_target:
        return None
    try:
        config = parse_json(i.backend_config)
        numbers = config.get("gemm_backend_config", config)["dot_dimension_numbers"]
        return [[int(n) for n in numbers.get(key, ())] for key in _GEMM_KEYS]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None

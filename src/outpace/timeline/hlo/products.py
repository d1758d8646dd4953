# SPDX-License-Identifier: Apache-2.0
"""Matrix products and convolutions: their kind, operations and sizes."""

from __future__ import annotations

import re

from outpace._lazy import compile_lazily
from outpace.timeline.hlo.cost.arithmetic import DOTS, PRODUCTS, dot_flops
from outpace.timeline.hlo.cost.convolutions import convolution_flops
from outpace.timeline.hlo.cost.library_calls import library_cost
from outpace.timeline.hlo.graph import Instruction
from outpace.timeline.hlo.shape import Shape

PRODUCT_OPCODES = PRODUCTS | {"custom-call"}
DOT, CONVOLUTION, ATTENTION = "dot", "convolution", "attention"
_ATTENTION = compile_lazily(r"fmha|attention|attn", re.IGNORECASE)
_KERNEL_IN, _KERNEL_OUT = 3, 4  # fields of ConvolutionDimensionNumbers
_SPATIAL = 11  # field of ConvolutionDimensionNumbers: dimensions of the input that the kernel slides over
_COMPLEX = (15, 18)  # C64, C128
_TILE = 8  # sizes that are multiples of it need no padding for tensor cores


def product_flops(instruction: Instruction) -> float:
    """Return the floating-point operations of one matrix product or convolution, a multiply-add as
    two; 0 for every other instruction.
    """
    if instruction.opcode == "custom-call":
        return library_cost(instruction).product_flops
    if instruction.opcode == "convolution":
        return convolution_flops(instruction)
    return dot_flops(instruction) if instruction.opcode in DOTS else 0


def _operand_arrays(instruction: Instruction) -> list[Shape]:
    return [operand.shapes[0] for operand in instruction.operands if operand.shapes]


def _size(shape: Shape, dimension: int) -> int:
    """Return the size of a dimension; 0 where the array has no such dimension."""
    return shape.dimensions[dimension] if dimension < len(shape.dimensions) else 0


def _output_and_kernel(instruction: Instruction) -> tuple[Shape, Shape]:
    """Return (output, kernel) of a convolution. For the gradients, "output" is the gradient that
    arrives from the next layer.
    """
    first, second = _operand_arrays(instruction)[:2]
    if "BackwardInput" in instruction.custom_call_target:
        return first, second
    if "BackwardFilter" in instruction.custom_call_target:
        return second, instruction.shapes[0]
    return instruction.shapes[0], second


def has_product(instruction: Instruction) -> bool:
    """Whether the instruction multiplies matrices or convolves, alone or inside a fusion."""
    return any(map(product_flops, instruction.parts))


def product_kind(instruction: Instruction) -> str:
    """Return the kind of product, alone or inside a fusion: `DOT`, `CONVOLUTION`, or `ATTENTION` of
    a library; "" without a product.

    Of several products the one with the most operations counts. The instruction's own name is not
    used, because it may be only that of a change of layout at the end.
    """
    largest = max(instruction.parts, key=product_flops)
    if largest.opcode == "custom-call" and _ATTENTION.search(largest.custom_call_target):
        return ATTENTION
    if not product_flops(largest):
        return ""
    return CONVOLUTION if has_spatial_dimensions(largest) else DOT


def has_spatial_dimensions(instruction: Instruction) -> bool:
    """Whether a convolution's kernel slides over dimensions; without any it is a matrix product."""
    return instruction.convolution_dimension_numbers.has(_SPATIAL)


def is_complex_product(instruction: Instruction) -> bool:
    """Whether the instruction multiplies matrices of complex numbers."""
    products = (part for part in instruction.parts if product_flops(part))
    return any(shape.element_type in _COMPLEX for product in products for shape in product.operand_shapes[:1])


def is_aligned(instruction: Instruction) -> bool:
    """Whether the instruction multiplies matrices whose sizes (for a convolution, its channels) are
    multiples of 8, so that tensor cores need no padding.
    """
    products = [part for part in instruction.parts if product_flops(part)]
    return bool(products) and not any(size % _TILE for product in products for size in _sizes(product))


def _sizes(product: Instruction) -> list[int]:
    numbers = product.convolution_dimension_numbers
    if product.opcode not in DOTS and numbers.has(_KERNEL_IN, _KERNEL_OUT):
        _, kernel = _output_and_kernel(product)
        return [_size(kernel, numbers.integer(field, 0)) for field in (_KERNEL_IN, _KERNEL_OUT)]
    return [*product.shapes[0].dimensions[-2:], *(n for shape in product.operand_shapes[:2] for n in shape.dimensions[-1:])]

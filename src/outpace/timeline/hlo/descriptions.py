# SPDX-License-Identifier: Apache-2.0
"""What an instruction computes, in a few words: its sizes, its groups, its length."""

from __future__ import annotations

import math

from outpace.timeline.hlo.cost.arithmetic import DOTS
from outpace.timeline.hlo.cost.convolutions import convolution_groups
from outpace.timeline.hlo.cost.library_calls import find_library_call, is_sort
from outpace.timeline.hlo.graph import Instruction
from outpace.timeline.hlo.products import DOT, product_flops, product_kind
from outpace.timeline.hlo.shape import Shape
from outpace.timeline.hlo.slow_cases import is_prime


def describe_instruction(instruction: Instruction) -> str:
    """Return what an instruction computes in words: `depthwise, 1,024 groups, kernel 4`, `IRFFT of
    8,191 (prime)`, `sorts 16,000,000 u32 with s32`; "" where its opcode says it all.
    """
    main, kind = max(instruction.parts, key=product_flops), product_kind(instruction)
    if kind and product_flops(main):
        return _describe_product(main, kind)
    for part in instruction.parts:
        if part.opcode == "fft":
            return _describe_fft(part)
        if is_sort(part):
            return _describe_sort(part)
    call = find_library_call(main)
    return call.operation if call is not None else main.custom_call_target


def _describe_product(product: Instruction, kind: str) -> str:
    """Return the sizes of a matrix product (result, summed over), the groups and kernel of a
    convolution, or the shape of an attention's queries.
    """
    arrays = [operand.shapes[0] for operand in product.operands if operand.shapes]
    if kind == DOT or product.opcode in DOTS:
        result, left = product.shapes[0], arrays[0]
        summed = product_flops(product) // max(2 * result.element_count, 1)
        return f"{_type(left)} {_sizes(result)}, sums over {summed:,.0f}"
    if product.window:
        groups, is_depthwise = convolution_groups(product)
        kernel = " x ".join(str(dimension.size) for dimension in product.window)
        words = ("depthwise" * is_depthwise, f"{groups:,} groups" * (groups > 1), f"kernel {kernel}")
        return ", ".join(filter(None, words))
    return f"{kind} of {_type(arrays[0])} {_sizes(arrays[0])}" if arrays else kind


def _describe_fft(fft: Instruction) -> str:
    lengths = fft.fft_lengths
    prime = " (prime)" if len(lengths) == 1 and is_prime(lengths[0]) else ""
    batch = fft.shapes[0].element_count // max(math.prod(fft.shapes[0].dimensions[-len(lengths) :]), 1) if lengths else 1
    return f"{fft.fft_kind} of {' x '.join(f'{n:,}' for n in lengths)}{prime}, {batch:,} times"


def _describe_sort(sort: Instruction) -> str:
    keys, *payloads = [operand.shapes[0] for operand in sort.operands if operand.shapes] or sort.shapes
    beside = f" with {', '.join(_type(shape) for shape in payloads)}" if payloads else ""
    return f"sorts {keys.element_count:,} {_type(keys)}{beside}"


def _type(shape: Shape) -> str:
    return str(shape).partition("[")[0]


def _sizes(shape: Shape) -> str:
    return " x ".join(f"{n:,}" for n in shape.dimensions)

# SPDX-License-Identifier: Apache-2.0
"""Operations of convolutions: strides, dilations, groups, and both gradients."""

from __future__ import annotations

import math

import numpy as np

from outpace.timeline.hlo.graph import Instruction, WindowDimension
from outpace.timeline.hlo.shape import Shape

_KERNEL_INPUT, _KERNEL_SPATIAL, _BATCH, _FEATURE, _OUTPUT_FEATURE = 3, 6, 7, 8, 10  # ConvolutionDimensionNumbers
_SPATIAL, _OUTPUT_SPATIAL = 11, 12
_LONGEST, _LARGEST = 10**5, 2**31  # maximum positions of a kernel, and of any size; more are counted as if none lay outside


def convolution_flops(instruction: Instruction) -> int:
    """Return the operations of a convolution, a multiply-add as two; 0 where its shapes do not
    tell.

    Every position of the output multiplies and adds those positions of the kernel that lie on
    elements of the input: not those on padding, and not those between dilated elements. A gradient
    that a library computes has the operations of the convolution whose gradient it is.
    """
    arrays = [operand.shapes[0] for operand in instruction.operands[:2] if operand.shapes]
    if len(arrays) < 2 or not instruction.shapes:
        return 0
    source, kernel, output = _roles(instruction.custom_call_target, arrays[0], arrays[1], instruction.shapes[0])
    if not (source.element_count and kernel.element_count and output.element_count):
        return 0
    numbers = instruction.convolution_dimension_numbers
    spatial = zip(*(numbers.numbers(field) for field in (_SPATIAL, _KERNEL_SPATIAL, _OUTPUT_SPATIAL)), strict=False)
    positions = [
        _count_positions(window, _size(source, i), _size(kernel, k), _size(output, o))
        for window, (i, k, o) in zip(instruction.window, spatial, strict=False)
    ]
    features, examples = instruction.group_counts
    inputs = _size(source, numbers.integer(_FEATURE, 0)) // features
    outputs = _size(output, numbers.integer(_OUTPUT_FEATURE, 0))
    batch = _size(source, numbers.integer(_BATCH, 0)) // examples
    return 2 * inputs * outputs * batch * math.prod(positions)


def convolution_groups(instruction: Instruction) -> tuple[int, bool]:
    """Return (number of groups of a convolution, whether each has a single channel: depthwise).

    The gradient of a grouped convolution by its kernel may have groups of examples instead.
    """
    features, examples = instruction.group_counts
    arrays = [operand.shapes[0] for operand in instruction.operands[:2] if operand.shapes]
    if max(features, examples) == 1 or len(arrays) < 2 or not instruction.shapes:
        return max(features, examples), False
    source, kernel, _ = _roles(instruction.custom_call_target, arrays[0], arrays[1], instruction.shapes[0])
    numbers = instruction.convolution_dimension_numbers
    if features > 1:
        return features, _size(kernel, numbers.integer(_KERNEL_INPUT, 0)) == 1
    return examples, _size(source, numbers.integer(_BATCH, 0)) == examples


def convolution_output_sizes(instruction: Instruction) -> list[int]:
    """Return the sizes of a convolution's output in the dimensions that its window slides over;
    none where its shapes do not tell. Of a gradient that a library computes they are those of the
    convolution whose gradient it is.
    """
    arrays = [operand.shapes[0] for operand in instruction.operands[:2] if operand.shapes]
    if len(arrays) < 2 or not instruction.shapes:
        return []
    _, _, output = _roles(instruction.custom_call_target, arrays[0], arrays[1], instruction.shapes[0])
    return [_size(output, dimension) for dimension in instruction.convolution_dimension_numbers.numbers(_OUTPUT_SPATIAL)]


def _roles(target: str, first: Shape, second: Shape, result: Shape) -> tuple[Shape, Shape, Shape]:
    """Return (input, kernel, output) of the convolution that a library's call computes, or whose
    gradient it computes.
    """
    if "BackwardInput" in target:
        return result, second, first
    if "BackwardFilter" in target:
        return first, result, second
    return first, second, result


def _size(shape: Shape, dimension: int) -> int:
    """Return the size of a dimension; 1 where the array has no such dimension."""
    return shape.dimensions[dimension] if dimension < len(shape.dimensions) else 1


def _count_positions(window: WindowDimension, inputs: int, kernel: int, outputs: int) -> int:
    """Return how many pairs (position of the output, position of the kernel) lie on an element of
    the input, in one dimension.

    Output o looks at place o * stride + offset, which must be a multiple of the base dilation, and
    within the input.
    """
    if kernel > _LONGEST or max(inputs, outputs, window.size, abs(window.low), *_steps(window)) > _LARGEST:
        return kernel * outputs
    stride, dilation, base = _steps(window)
    offset = np.arange(kernel) * dilation - window.low
    first = np.maximum(0, -(offset // stride))  # the first output at or after the begin of the input
    last = np.minimum(outputs - 1, ((inputs - 1) * base - offset) // stride)
    common = math.gcd(stride, base)
    period = base // common
    inverse = pow(stride // common, -1, period) if period > 1 else 0
    start = (-offset // common * inverse) % period
    begin = first + (start - first) % period
    fits = (last >= begin) & (offset % common == 0)
    return int(np.where(fits, (last - begin) // period + 1, 0).sum())


def _steps(window: WindowDimension) -> tuple[int, int, int]:
    """Return (stride, dilation, base dilation) of a window, each at least 1."""
    return max(window.stride, 1), max(window.dilation, 1), max(window.base_dilation, 1)

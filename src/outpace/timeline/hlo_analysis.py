"""Properties of HLO instructions: precision, number of operations and bytes, and whether they wait
for a transfer.

`callees` returns the instructions of the computations that an instruction calls, `operands` returns
its operands, and `users` are the instructions that take its result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from outpace._lazy import compile_lazily
from outpace.timeline.hlo_proto import Instruction, Shape, as_bytes, as_int, read_packed

HALF, SINGLE, DOUBLE, UNKNOWN = 16, 32, 64, 0
_SIZES = {  # bytes per element by `PrimitiveType`; missing types have no size (tuples, tokens) or less than a byte
    **dict.fromkeys((1, 2, 6, 19, 20, 23, 24, 25, 28, 29, 33), 1),
    **dict.fromkeys((3, 7, 10, 16), 2),
    **dict.fromkeys((4, 8, 11), 4),
    **dict.fromkeys((5, 9, 12, 15), 8),
    18: 16,
}
_HALF_FLOATS = {10, 16, 19, 20, 23, 24, 25, 28, 29, 32, 33}  # F16, BF16 and the 8-bit and 4-bit floats
_DOUBLES = {12, 18}  # F64 and C128
_FLOATS = {*_HALF_FLOATS, 11, 15, *_DOUBLES}
_HEAVY = ("dot", "convolution", "custom-call", "ragged-dot", "scaled-dot", "cholesky", "triangular-solve", "fft")
PRODUCT_OPCODES = frozenset(("dot", "convolution", "custom-call"))
_HOST_SPACE = 5
_TILE = 8
_MOST = 10**20  # maximum operations or bytes of one execution; more is damage
_COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective", "ragged-all-to-all")
_IN_PLACE = ("dynamic-update-slice", "scatter", "while")
_PARTIAL = ("dynamic-slice", "slice", "gather", "pad", "dynamic-update-slice", "scatter", "while", "conditional", "call")

DOT, CONVOLUTION, ATTENTION = "dot", "convolution", "attention"
_ATTENTION = compile_lazily(r"fmha|attention|attn", re.IGNORECASE)
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, COLLECTIVE = (
    "host_to_device",
    "device_to_host",
    "device_to_device",
    "collective",
)
_KERNEL_IN, _KERNEL_OUT = 3, 4  # fields of ConvolutionDimensionNumbers
_SPATIAL = 11  # field of ConvolutionDimensionNumbers: dimensions of the input that the kernel slides over
_LHS_CONTRACTING = 1  # field of DotDimensionNumbers
_CONTRACTED = compile_lazily(r'"lhs_contracting_dimensions":\[([\d",]*)\]')
_LHS_BATCH = 3  # field of DotDimensionNumbers
_BATCHED = compile_lazily(r'"lhs_batch_dimensions":\[([\d",]*\d[\d",]*)\]')
_HIGHEST = 2  # value of PrecisionConfig
_CASTS = 4  # maximum number of consecutive casts that are followed
LAYOUT_OPCODES = frozenset(
    ("parameter", "constant", "convert", "bitcast", "copy", "transpose", "reshape", "broadcast", "pad", "slice")
)
_COUNTED_OUT = frozenset(("iota", "compare"))
_ONLY = LAYOUT_OPCODES | _COUNTED_OUT
_ALL_DIGITS = compile_lazily(r'"operand_precision":\[[^\]]*"HIGHEST"')

Callees = Callable[[Instruction], Sequence[Instruction]]
Operands = Callable[[Instruction], Sequence[Instruction]]


def _shapes(instructions: Sequence[Instruction]) -> list[Shape]:
    return [shape for instruction in instructions for shape in instruction.shapes]


def precision_bits(instruction: Instruction, callees: Callees, operands: Operands) -> int:
    """Return 16, 32 or 64: the bits of the inputs of a matrix product, convolution or custom call,
    alone or inside a fusion; for other instructions the bits of the result's type. 0 if unknown.

    A product of 16-bit numbers that is accumulated in 32 bits is a 16-bit product.
    """
    heavy = [i for i in _once(instruction, callees) if i.opcode in _HEAVY]
    for candidate in heavy:
        if bits := _bits(_shapes(operands(candidate))):
            return bits
    return _bits(instruction.shapes)


def _bits(shapes: Sequence[Shape]) -> int:
    floats = [s for s in shapes if s.element_type in _FLOATS]
    if not floats:
        return UNKNOWN
    if len(floats) == len(shapes):  # the largest array decides; of arrays of equal size, the shorter type
        largest = max(floats, key=lambda s: (s.element_count, s.element_type in _HALF_FLOATS))
        return HALF if largest.element_type in _HALF_FLOATS else DOUBLE if largest.element_type in _DOUBLES else SINGLE
    return HALF if any(s.element_type in _HALF_FLOATS for s in floats) else SINGLE


def transfer_kind(instruction: Instruction, callees: Callees, operands: Operands) -> str:
    """Return the transfer for whose end an asynchronous op waits: the direction of a copy, or
    `COLLECTIVE`; "" for every other op.
    """
    if not instruction.opcode.endswith("-done"):
        return ""
    start = next(iter(operands(instruction)), None)
    wrapped = [i.opcode for i in (*callees(instruction), *(callees(start) if start else ()))]
    if any(name.startswith(_COLLECTIVES) for name in (instruction.opcode, *wrapped)):
        return COLLECTIVE
    if instruction.opcode.startswith(("send", "recv")):
        to, through = (DEVICE_TO_HOST, "send") if instruction.opcode.startswith("send") else (HOST_TO_DEVICE, "recv")
        return to if instruction.is_host_transfer and through else DEVICE_TO_DEVICE
    return transfer_direction([s.memory_space for s in start.shapes] if start else [])


def transfer_direction(spaces: Sequence[int]) -> str:
    """Return the direction of a copy by the memory spaces of (destination, source, ...)."""
    to_host, from_host = (space == _HOST_SPACE for space in (*spaces[:2], *(0, 0)[len(spaces[:2]) :]))
    if to_host == from_host:
        return DEVICE_TO_DEVICE
    return DEVICE_TO_HOST if to_host else HOST_TO_DEVICE


def flops(instruction: Instruction, callees: Callees, operands: Operands) -> float:
    """Return the floating-point operations of one execution, a multiply-add as two, counting matrix
    products and convolutions; -1 where there are none.
    """
    return _counted(sum(_products(i, operands(i)) for i in _once(instruction, callees)))


def _once(instruction: Instruction, inside: Callees) -> list[Instruction]:
    """Return an instruction and those that it runs exactly once; bodies of loops and reductions run
    more often.
    """
    return [instruction, *(inside(instruction) if instruction.opcode in ("fusion", "call") else ())]


def _counted(number: int) -> float:
    """Return a count as float; -1 for 0 and for counts that only a damaged program has."""
    return float(number) if 0 < number < _MOST else -1.0


def _products(instruction: Instruction, operands: Sequence[Instruction]) -> int:
    if instruction.opcode not in PRODUCT_OPCODES:
        return 0
    shapes = [o.shapes[0] for o in operands if o.shapes]
    if len(shapes) < 2 or not instruction.shapes:
        return 0
    if instruction.opcode == "dot":
        return _dot(
            instruction.shapes[0], shapes[0], read_packed(as_bytes(instruction.dot_dimension_numbers.get(_LHS_CONTRACTING)))
        )
    if instruction.opcode == "custom-call" and (found := _CONTRACTED.search(instruction.backend_config)):
        contracted = [int(n) for n in found[1].replace('"', "").split(",") if n]
        return _dot(instruction.shapes[0], shapes[0], contracted)
    if instruction.opcode == "convolution" or "conv" in instruction.custom_call_target.lower():
        return _convolution(instruction, shapes)
    return 0


def _dot(result: Shape, left: Shape, contracted: Sequence[int]) -> int:
    sizes = [left.dimensions[d] for d in contracted if d < len(left.dimensions)]
    return 2 * result.element_count * math.prod(sizes)


def _convolution(instruction: Instruction, shapes: Sequence[Shape]) -> int:
    """Return the operations of a convolution: every output position multiplies the kernel once."""
    output, kernel = _of_convolution(instruction, shapes)
    at = max(as_int(instruction.convolution_dimension_numbers.get(_KERNEL_OUT)), 0)  # the field is missing for dimension 0
    if (
        not (instruction.convolution_dimension_numbers.keys() & {_KERNEL_IN, _KERNEL_OUT})
        or at >= len(kernel.dimensions)
        or not kernel.dimensions[at]
    ):
        return 0
    return 2 * output.element_count * kernel.element_count // kernel.dimensions[at]


def _of_convolution(instruction: Instruction, shapes: Sequence[Shape]) -> tuple[Shape, Shape]:
    """Return (output, kernel) of a convolution. For the gradients, "output" is the gradient that
    arrives from the next layer.
    """
    if "BackwardInput" in instruction.custom_call_target:
        return shapes[0], shapes[1]
    if "BackwardFilter" in instruction.custom_call_target:
        return shapes[1], instruction.shapes[0]
    return instruction.shapes[0], shapes[1]


def bytes_accessed(instruction: Instruction, callees: Callees, operands: Operands) -> float:
    """Return the minimum bytes that one execution reads and writes: operands and result once. -1
    for ops that access only parts of their operands.
    """
    if instruction.opcode.endswith(("-start", "-done")) or any(i.opcode in _PARTIAL for i in _once(instruction, callees)):
        return -1.0
    return _counted(byte_size([*_shapes(operands(instruction)), *_results(instruction)]))


def byte_size(shapes: Sequence[Shape]) -> int:
    """Return the size of arrays in bytes."""
    return sum(s.element_count * _SIZES.get(s.element_type, 0) for s in shapes)


def is_batched_product(instruction: Instruction, callees: Callees, operands: Operands, users: Sequence[Instruction]) -> bool:
    """Whether the instruction multiplies a batch of matrices by another, as in a model for each
    example (and head). Where `users` of the result add up the whole batch, the answer is no: it is
    one product that the compiler has divided to use more of the device.
    """
    batch = set(range(max(map(_batch, _once(instruction, callees)))))
    return bool(batch) and not any(
        i.opcode == "reduce" and batch <= set(i.dimensions) and _alike(instruction.shapes[:1], _shapes(operands(i))[:1])
        for taker in users
        for i in _once(taker, callees)
    )


def _batch(instruction: Instruction) -> int:
    """Return how many leading dimensions of a product's result are batch dimensions."""
    found = _BATCHED.search(instruction.backend_config) if instruction.opcode == "custom-call" else None
    return len(found[1].split(",")) if found else len(read_packed(as_bytes(instruction.dot_dimension_numbers.get(_LHS_BATCH))))


def _alike(some: Sequence[Shape], others: Sequence[Shape]) -> bool:
    return [s.dimensions for s in some] == [s.dimensions for s in others]


def is_softmax(instruction: Instruction, callees: Callees, operands: Operands) -> bool:
    """Whether the instruction computes exponentials of differences, as a softmax does of the
    distance to the largest number. A sigmoid computes exponentials of the numbers themselves.
    """
    return any(i.opcode == "exponential" and _difference(i, operands) for i in _once(instruction, callees))


def _difference(instruction: Instruction, operands: Operands) -> bool:
    """Whether the operand is a difference, possibly cast to another type."""
    given = next(iter(operands(instruction)), None)
    for _ in range(_CASTS):
        given = next(iter(operands(given)), None) if given is not None and given.opcode == "convert" else given
    return given is not None and given.opcode == "subtract"


def is_one_hot(instruction: Instruction, callees: Callees) -> bool:
    """Whether the instruction creates one-hot rows from indices: it only compares them with a count
    for equality. A mask compares for less; an identity matrix has no indices as input.
    """
    all_ = _once(instruction, callees)
    opcodes = {i.opcode for i in all_} - {"fusion"}
    only = opcodes >= {*_COUNTED_OUT, "parameter"} and opcodes <= _ONLY
    return only and any(i.comparison_direction == "EQ" for i in all_)


def product_kind(instruction: Instruction, callees: Callees, operands: Operands) -> str:
    """Return the kind of product, alone or inside a fusion: `DOT`, `CONVOLUTION`, or `ATTENTION` of
    a library; "" without a product.

    Of several products the one with the most operations counts. The instruction's own name is not
    used, because it may be only that of a change of layout at the end.
    """
    found = max(_once(instruction, callees), key=lambda i: _products(i, operands(i)))
    if found.opcode == "custom-call" and _ATTENTION.search(found.custom_call_target):
        return ATTENTION
    if not _products(found, operands(found)):
        return ""
    # A convolution without spatial dimensions is a matrix product
    return CONVOLUTION if found.convolution_dimension_numbers.get(_SPATIAL) else DOT


def has_product(instruction: Instruction, callees: Callees, operands: Operands) -> bool:
    """Whether the instruction multiplies matrices or convolves."""
    return any(_products(i, operands(i)) for i in _once(instruction, callees))


def is_highest_precision(instruction: Instruction, callees: Callees) -> bool:
    """Whether the program requests full precision for a product (`Precision.HIGHEST`), which no
    tensor core provides.
    """
    return any(
        _HIGHEST in i.operand_precision or bool(_ALL_DIGITS.search(i.backend_config)) for i in _once(instruction, callees)
    )


def is_in_place_update(instruction: Instruction, callees: Callees) -> bool:
    """Whether the instruction writes into one of its operands, as a loop does into its state."""
    return any(i.opcode in _IN_PLACE for i in _once(instruction, callees))


def is_aligned(instruction: Instruction, callees: Callees, operands: Operands) -> bool:
    """Whether the instruction multiplies matrices whose sizes (for a convolution, its channels) are
    multiples of 8, so that tensor cores need no padding.
    """
    products = [i for i in _once(instruction, callees) if _products(i, operands(i))]
    return bool(products) and not any(n % _TILE for i in products for n in _sizes(i, operands(i)))


def _sizes(product: Instruction, operands: Sequence[Instruction]) -> list[int]:
    found = product.convolution_dimension_numbers
    if found.keys() & {_KERNEL_IN, _KERNEL_OUT}:
        _, kernel = _of_convolution(product, [o.shapes[0] for o in operands if o.shapes])
        return [
            kernel.dimensions[at]
            for d in (_KERNEL_IN, _KERNEL_OUT)
            if (at := max(as_int(found.get(d)), 0)) < len(kernel.dimensions)
        ]
    return [*product.shapes[0].dimensions[-2:], *(n for shape in _shapes(operands)[:2] for n in shape.dimensions[-1:])]


def _results(instruction: Instruction) -> Sequence[Shape]:
    """Return the results without those of a library call after the first, its working memory."""
    return instruction.shapes[:1] if instruction.opcode == "custom-call" else instruction.shapes

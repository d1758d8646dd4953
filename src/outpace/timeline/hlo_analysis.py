"""What an HLO instruction does: in which precision it computes, how many operations and bytes it
takes, and whether it waits for a transfer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from outpace.timeline.hlo_proto import Instruction, Shape, as_bytes, as_int, read_packed

HALF, SINGLE, DOUBLE, UNKNOWN = 16, 32, 64, 0
_SIZES = {  # bytes of an element by `PrimitiveType`; what is missing has no size (tuples, tokens) or less than a byte
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
_MOST = 10**20  # operations or bytes of one execution
_COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective", "ragged-all-to-all")
_IN_PLACE = ("dynamic-update-slice", "scatter", "while")
_PARTIAL = ("dynamic-slice", "slice", "gather", "pad", "dynamic-update-slice", "scatter", "while", "conditional", "call")

DOT, CONVOLUTION, ATTENTION = "dot", "convolution", "attention"
_ATTENTION = re.compile(r"fmha|attention|attn", re.IGNORECASE)
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, COLLECTIVE = (
    "host_to_device",
    "device_to_host",
    "device_to_device",
    "collective",
)
_KERNEL_IN, _KERNEL_OUT = 3, 4  # ConvolutionDimensionNumbers
_SPATIAL = 11  # ConvolutionDimensionNumbers: the dimensions of the input that the kernel goes over
_LHS_CONTRACTING = 1  # DotDimensionNumbers
_CONTRACTED = re.compile(r'"lhs_contracting_dimensions":\[([\d",]*)\]')
_LHS_BATCH = 3  # DotDimensionNumbers
_BATCHED = re.compile(r'"lhs_batch_dimensions":\[([\d",]*\d[\d",]*)\]')
_HIGHEST = 2  # PrecisionConfig
_CASTS = 4  # one behind the other
LAYOUT_OPCODES = frozenset(
    ("parameter", "constant", "convert", "bitcast", "copy", "transpose", "reshape", "broadcast", "pad", "slice")
)
_COUNTED_OUT = frozenset(("iota", "compare"))
_ONLY = LAYOUT_OPCODES | _COUNTED_OUT
_ALL_DIGITS = re.compile(r'"operand_precision":\[[^\]]*"HIGHEST"')

Callees = Callable[[Instruction], Sequence[Instruction]]
Operands = Callable[[Instruction], Sequence[Instruction]]


def _shapes(instructions: Sequence[Instruction]) -> list[Shape]:
    return [shape for instruction in instructions for shape in instruction.shapes]


def precision_bits(instruction: Instruction, callees: Callees, operands: Operands) -> int:
    """16, 32 or 64: what a matrix product, convolution or custom call takes in, alone or inside a
    fusion; else the type of the result.

    A product of 16-bit numbers that is summed up in 32 bits is a 16-bit product. 0 where nothing
    says so.
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
    if len(floats) == len(shapes):  # the largest array says what the work is done in; of equal ones, the shorter type
        largest = max(floats, key=lambda s: (s.element_count, s.element_type in _HALF_FLOATS))
        return HALF if largest.element_type in _HALF_FLOATS else DOUBLE if largest.element_type in _DOUBLES else SINGLE
    return HALF if any(s.element_type in _HALF_FLOATS for s in floats) else SINGLE


def transfer_kind(instruction: Instruction, callees: Callees, operands: Operands) -> str:
    """What the end of an asynchronous op waits for: a copy by its direction, or a collective op; ""
    for every other op.
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
    """Of a copy, by the memory spaces of (destination, source, ...)."""
    to_host, from_host = (space == _HOST_SPACE for space in (*spaces[:2], *(0, 0)[len(spaces[:2]) :]))
    if to_host == from_host:
        return DEVICE_TO_DEVICE
    return DEVICE_TO_HOST if to_host else HOST_TO_DEVICE


def flops(instruction: Instruction, callees: Callees, operands: Operands) -> float:
    """Floating-point operations of one execution, a multiply-add as two: of its matrix products and
    convolutions. -1 where it has none.
    """
    return _counted(sum(_products(i, operands(i)) for i in _once(instruction, callees)))


def _once(instruction: Instruction, inside: Callees) -> list[Instruction]:
    """An instruction and what it runs once itself; the bodies of loops and reductions run more
    often.
    """
    return [instruction, *(inside(instruction) if instruction.opcode in ("fusion", "call") else ())]


def _counted(number: int) -> float:
    """-1 for nothing, and for what only a damaged program can hold."""
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
    """Every output position multiplies the kernel once."""
    output, kernel = _of_convolution(instruction, shapes)
    at = max(as_int(instruction.convolution_dimension_numbers.get(_KERNEL_OUT)), 0)  # dimension 0 is not written
    if (
        not (instruction.convolution_dimension_numbers.keys() & {_KERNEL_IN, _KERNEL_OUT})
        or at >= len(kernel.dimensions)
        or not kernel.dimensions[at]
    ):
        return 0
    return 2 * output.element_count * kernel.element_count // kernel.dimensions[at]


def _of_convolution(instruction: Instruction, shapes: Sequence[Shape]) -> tuple[Shape, Shape]:
    """(output, kernel) of a convolution: of the gradients, "output" is what comes in
    from behind.
    """
    if "BackwardInput" in instruction.custom_call_target:
        return shapes[0], shapes[1]
    if "BackwardFilter" in instruction.custom_call_target:
        return shapes[1], instruction.shapes[0]
    return instruction.shapes[0], shapes[1]


def bytes_accessed(instruction: Instruction, callees: Callees, operands: Operands) -> float:
    """Bytes that one execution reads and writes at least: operands and result once. -1 for ops that
    touch only parts of their operands.
    """
    if instruction.opcode.endswith(("-start", "-done")) or any(i.opcode in _PARTIAL for i in _once(instruction, callees)):
        return -1.0
    return _counted(byte_size([*_shapes(operands(instruction)), *_results(instruction)]))


def byte_size(shapes: Sequence[Shape]) -> int:
    """Bytes of arrays."""
    return sum(s.element_count * _SIZES.get(s.element_type, 0) for s in shapes)


def is_batched_product(instruction: Instruction, callees: Callees, operands: Operands, users: Sequence[Instruction]) -> bool:
    """Whether it multiplies a batch of matrices by another: in a model, each example's (and head's)
    own with its own. Where all that batch is added up by `users` of the result, it is one product
    whose sum the compiler has divided, so that more of the device works on it.
    """
    batch = set(range(max(map(_batch, _once(instruction, callees)))))
    return bool(batch) and not any(
        i.opcode == "reduce" and batch <= set(i.dimensions) and _alike(instruction.shapes[:1], _shapes(operands(i))[:1])
        for taker in users
        for i in _once(taker, callees)
    )


def _batch(instruction: Instruction) -> int:
    """How many dimensions of a product's result, the first ones, count its matrices."""
    found = _BATCHED.search(instruction.backend_config) if instruction.opcode == "custom-call" else None
    return len(found[1].split(",")) if found else len(read_packed(as_bytes(instruction.dot_dimension_numbers.get(_LHS_BATCH))))


def _alike(some: Sequence[Shape], others: Sequence[Shape]) -> bool:
    return [s.dimensions for s in some] == [s.dimensions for s in others]


def is_softmax(instruction: Instruction, callees: Callees, operands: Operands) -> bool:
    """Whether it takes exponentials of differences, as a softmax does of how far numbers lie below
    the largest. (A sigmoid's are of numbers themselves.)
    """
    return any(i.opcode == "exponential" and _difference(i, operands) for i in _once(instruction, callees))


def _difference(instruction: Instruction, operands: Operands) -> bool:
    """Whether it takes a difference, of whichever type of numbers."""
    given = next(iter(operands(instruction)), None)
    for _ in range(_CASTS):
        given = next(iter(operands(given)), None) if given is not None and given.opcode == "convert" else given
    return given is not None and given.opcode == "subtract"


def is_one_hot(instruction: Instruction, callees: Callees) -> bool:
    """Whether it makes rows that are 0 but for one place, which it is given: it only compares with
    a count, for equality. (A mask compares for less; an identity matrix is given no places.)
    """
    all_ = _once(instruction, callees)
    opcodes = {i.opcode for i in all_} - {"fusion"}
    only = opcodes >= {*_COUNTED_OUT, "parameter"} and opcodes <= _ONLY
    return only and any(i.comparison_direction == "EQ" for i in all_)


def product_kind(instruction: Instruction, callees: Callees, operands: Operands) -> str:
    """What it multiplies, alone or inside a fusion: `DOT`, `CONVOLUTION`, or `ATTENTION` of a
    library's; "" where it multiplies nothing. Of several the one with most operations. What the
    instruction is called after may be only the form in which it hands the result on.
    """
    found = max(_once(instruction, callees), key=lambda i: _products(i, operands(i)))
    if found.opcode == "custom-call" and _ATTENTION.search(found.custom_call_target):
        return ATTENTION
    if not _products(found, operands(found)):
        return ""
    return (
        CONVOLUTION if found.convolution_dimension_numbers.get(_SPATIAL) else DOT
    )  # without places to go over, a convolution is a matrix product


def has_product(instruction: Instruction, callees: Callees, operands: Operands) -> bool:
    """Whether it multiplies matrices or convolves."""
    return any(_products(i, operands(i)) for i in _once(instruction, callees))


def is_highest_precision(instruction: Instruction, callees: Callees) -> bool:
    """Whether the program asks for all digits of its products (`Precision.HIGHEST`), which no
    tensor core gives.
    """
    return any(
        _HIGHEST in i.operand_precision or bool(_ALL_DIGITS.search(i.backend_config)) for i in _once(instruction, callees)
    )


def is_in_place_update(instruction: Instruction, callees: Callees) -> bool:
    """Whether it writes into one of its operands, as a loop does into what it carries on."""
    return any(i.opcode in _IN_PLACE for i in _once(instruction, callees))


def is_aligned(instruction: Instruction, callees: Callees, operands: Operands) -> bool:
    """Whether it multiplies matrices, and their sizes (of a convolution its channels) are multiples
    of 8, as tensor cores want: nothing is to be padded.
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
    """Of a library call, the first result: what follows is its working memory."""
    return instruction.shapes[:1] if instruction.opcode == "custom-call" else instruction.shapes

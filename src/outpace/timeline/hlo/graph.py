# SPDX-License-Identifier: Apache-2.0
"""A program as a graph: computations of instructions, which refer to one another.

The name, the opcode and the neighbours of an instruction are there at once; all else is decoded
when it is asked for, because a program has thousands of instructions and few are asked about. Field
numbers are those of `xla/service/hlo.proto` and `xla/xla_data.proto`; only the few fields named
here are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace.timeline.hlo.shape import Shape, read_shapes
from outpace.timeline.hlo.wire import Message, iter_parts, to_signed

_NAME, _OPCODE, _SHAPE, _METADATA, _PARAMETER, _ID, _OPERANDS, _CALLED = 1, 2, 3, 7, 9, 35, 36, 38  # HloInstructionProto
_ALONG, _CONVOLUTION, _TARGET, _DOT, _CONFIG, _HOST_TRANSFER, _PRECISION, _COMPARISON = 14, 16, 28, 30, 43, 47, 51, 63
_LITERAL, _TUPLE_INDEX, _WINDOW, _SLICE, _FFT_KIND, _FFT_LENGTH = 8, 13, 15, 17, 31, 32
_FEATURE_GROUPS, _BATCH_GROUPS, _RAGGED_DOT = 50, 58, 90
_PADDING, _GATHER, _GATHER_SIZES, _SCATTER = 21, 33, 34, 48
_LITERAL_SHAPE = 1  # LiteralProto
_INTEGERS = (15, 17, 4, 5, 3, 16, 6, 7)  # LiteralProto: s8s, s16s, s32s, s64s, u8s, u16s, u32s, u64s
_PACKED_AS_BYTES = {15: (1, True), 17: (2, True), 3: (1, False), 16: (2, False)}  # its fields that are bytes: size, signed
_FRAMEWORK_OP, _FILE, _LINE, _FRAME = 2, 3, 4, 15  # OpMetadata
_FAR = 4  # maximum distance that is searched from an instruction to those that use its result
WIDE = 100
"""Maximum number of neighbours that are searched: what more instructions use is specific to none of
them.
"""
SILENT_OPCODES = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id", "opt-barrier")
)
"""Opcodes that execute nothing."""
_FFT_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")


@dataclass(frozen=True)
class WindowDimension:
    """How a window slides over one dimension of an array.

    size: number of positions in the window.
    stride: distance between two positions of the window.
    low, high: number of positions before and after the array; negative where some are left out.
    dilation: distance between two positions in the window.
    base_dilation: distance between two elements of the array; positions between them hold none.
    """

    size: int
    stride: int
    low: int
    high: int
    dilation: int
    base_dilation: int


class Instruction:
    """One instruction of a program.

    name: name in the program, `fusion.7`.
    opcode: `fusion`, `dot`, `custom-call`.
    id: number by which the program refers to it; -1 where missing.
    operands: instructions whose results it takes.
    users: instructions that take its result, once per operand.
    called: computations that it calls.

    The reader sets its neighbours when it has all instructions; nothing changes them later.
    """

    operands: Sequence[Instruction] = ()
    called: Sequence[Computation] = ()

    def __init__(self, data: bytes) -> None:
        self.users: list[Instruction] = []
        self._fields = fields = Message(data)
        self.name, self.opcode, self.id = fields.text(_NAME), fields.text(_OPCODE), fields.integer(_ID)
        self._ranges = tuple(iter_parts(data, _SLICE)) if self.opcode == "slice" else ()

    @property
    def operand_ids(self) -> list[int]:
        """Ids of the operands."""
        return self._fields.numbers(_OPERANDS)

    @property
    def called_ids(self) -> list[int]:
        """Ids of the computations that it calls."""
        return self._fields.numbers(_CALLED)

    @property
    def callees(self) -> list[Instruction]:
        """Instructions of the computations that it calls."""
        return [instruction for computation in self.called for instruction in computation.instructions]

    @property
    def parts(self) -> list[Instruction]:
        """The instruction, and those that one execution of it runs exactly once: those inside a
        fusion or a call. Bodies of loops and reductions run more often.
        """
        return [self, *self.callees] if self.opcode in ("fusion", "call") else [self]

    @once
    def shapes(self) -> list[Shape]:
        """Shapes of the result: one array, or the arrays of a tuple."""
        return list(read_shapes(self._fields.content(_SHAPE)))

    @once
    def alias_keys(self) -> frozenset[tuple[int, int]]:
        """Distinct `Shape.alias_key` of the result's arrays."""
        return frozenset(shape.alias_key for shape in self.shapes)

    @property
    def operand_shapes(self) -> list[Shape]:
        """Shapes of all arrays that it takes."""
        return [shape for operand in self.operands for shape in operand.shapes]

    @property
    def parameter_number(self) -> int:
        """Number of a parameter in its computation, from 0; 0 for every other instruction."""
        return self._fields.integer(_PARAMETER, 0)

    @property
    def dimensions(self) -> list[int]:
        """Dimensions along which it works; for a reduction, those that its result lacks."""
        return self._fields.numbers(_ALONG)

    @property
    def tuple_index(self) -> int:
        """Number of the element that a `get-tuple-element` takes; 0 for every other instruction."""
        return self._fields.integer(_TUPLE_INDEX, 0)

    @once
    def window(self) -> list[WindowDimension]:
        """Windows of a convolution or pooling, one per dimension that they slide over."""
        dimensions = (Message(part) for part in iter_parts(self._fields.content(_WINDOW), 1))
        return [
            WindowDimension(
                d.integer(1, 0),
                d.integer(2, 1),
                to_signed(d.integer(3, 0)),
                to_signed(d.integer(4, 0)),
                d.integer(5, 1),
                d.integer(6, 1),
            )
            for d in dimensions
        ]

    @property
    def group_counts(self) -> tuple[int, int]:
        """(groups of features, groups of examples) of a convolution; 1 where it has none."""
        return max(self._fields.integer(_FEATURE_GROUPS, 1), 1), max(self._fields.integer(_BATCH_GROUPS, 1), 1)

    @property
    def fft_kind(self) -> str:
        """Kind of an FFT: `FFT`, `IFFT`, `RFFT` or `IRFFT`."""
        kind = self._fields.integer(_FFT_KIND, 0)
        return _FFT_KINDS[kind] if 0 <= kind < len(_FFT_KINDS) else ""

    @property
    def fft_lengths(self) -> list[int]:
        """Lengths of an FFT, one per dimension that it transforms."""
        return self._fields.numbers(_FFT_LENGTH)

    @once
    def ranges(self) -> tuple[tuple[int, int, int], ...]:
        """(first, end, stride) of what a `slice` takes of each dimension, or a `pad` leaves
        for the array; empty for every other instruction.
        """
        if self.opcode == "pad":
            sizes = self.operand_shapes[0].dimensions if self.operand_shapes else []
            edges = [Message(part) for part in iter_parts(self._fields.content(_PADDING), 1)]
            lows = [to_signed(edge.integer(1, 0)) for edge in edges]
            steps = [edge.integer(3, 0) + 1 for edge in edges]
            return tuple((low, low + (size - 1) * step + 1, step) for low, size, step in zip(lows, sizes, steps, strict=False))
        taken = (Message(part) for part in self._ranges)
        return tuple((part.integer(1, 0), part.integer(2, 0), part.integer(3, 1)) for part in taken)

    @property
    def literal(self) -> int | None:
        """Value of a constant that is one integer; None for every other instruction."""
        if self.opcode != "constant" or not self.shapes or self.shapes[0].element_count != 1:
            return None
        return _read_integer(self._fields.message(_LITERAL))

    @once
    def is_zero(self) -> bool:
        """Whether it is a constant of one element, 0."""
        literal = self._fields.message(_LITERAL)
        return (
            self.opcode == "constant"
            and bool(self.shapes)
            and self.shapes[0].element_count == 1
            and not any(any(v) if isinstance(v, bytes) else v for field, v in literal.items() if field != _LITERAL_SHAPE)
        )

    @property
    def gather_dimension_numbers(self) -> Message:
        """Fields of `GatherDimensionNumbers`."""
        return self._fields.message(_GATHER)

    @property
    def gather_slice_sizes(self) -> list[int]:
        """Sizes of what a gather takes at each index, one per dimension of the array."""
        return self._fields.numbers(_GATHER_SIZES)

    @property
    def scatter_dimension_numbers(self) -> Message:
        """Fields of `ScatterDimensionNumbers`."""
        return self._fields.message(_SCATTER)

    @property
    def custom_call_target(self) -> str:
        """Target of a custom call: `__cublas$gemm`."""
        return self._fields.text(_TARGET)

    @property
    def backend_config(self) -> str:
        """Configuration that the compiler chose for the device: JSON, for most ops of GPUs."""
        return self._fields.text(_CONFIG)

    @property
    def is_host_transfer(self) -> bool:
        """Whether the other end of a send or receive is the host."""
        return self._fields.integer(_HOST_TRANSFER) > 0

    @property
    def comparison_direction(self) -> str:
        """Direction of a comparison: `EQ`, `LT`."""
        return self._fields.text(_COMPARISON)

    @property
    def operand_precision(self) -> list[int]:
        """Precision that the program requests for each operand of a product: 0 default, 1 high,
        2 highest.
        """
        return self._fields.message(_PRECISION).numbers(1)

    @property
    def dot_dimension_numbers(self) -> Message:
        """Fields of `DotDimensionNumbers`, also of a product of ragged groups."""
        return self._fields.message(_DOT) if self._fields.has(_DOT) else self._fields.message(_RAGGED_DOT).message(1)

    @property
    def convolution_dimension_numbers(self) -> Message:
        """Fields of `ConvolutionDimensionNumbers`."""
        return self._fields.message(_CONVOLUTION)

    @once
    def _metadata(self) -> Message:
        return self._fields.message(_METADATA)

    @property
    def framework_op(self) -> str:
        """Framework op that it was compiled from: `jit(step)/dot_general`."""
        return self._metadata.text(_FRAMEWORK_OP)

    @property
    def source_line(self) -> tuple[str, int]:
        """(source file, line), or ("", -1) where the program has none."""
        return self._metadata.text(_FILE), self._metadata.integer(_LINE)

    @property
    def stack_frame_id(self) -> int:
        """Number of its frame in the program's `StackFrameIndex`, from 1; 0 or less for none."""
        return self._metadata.integer(_FRAME)

    @property
    def origin(self) -> Instruction:
        """The instruction that knows the framework op: itself, or for a fusion without metadata the
        last fused instruction that has some.
        """
        return self if self.framework_op else next((i for i in reversed(self.callees) if i.framework_op), self)

    def iter_further_users(self) -> Iterator[Instruction]:
        """Yield the instructions that use the result, directly or not, nearest first."""
        layer, visited = [self], {self}
        for _ in range(_FAR):
            users = [user for instruction in layer for user in instruction.users[:WIDE] if user not in visited][:WIDE]
            yield from users
            layer = users
            visited.update(users)


class Computation:
    """A list of instructions that is called: a function, the contents of a fusion, the body of a
    loop.

    name: its name in the program; "" where unknown.
    callers: instructions that call it; none for the entry computation.
    root: the instruction whose result the computation returns; None for a damaged one.
    """

    def __init__(self, instructions: Sequence[Instruction], root_id: int = -1, name: str = "") -> None:
        self.name = name
        self.callers: list[Instruction] = []
        self.instructions = instructions
        self.root = next((i for i in reversed(instructions) if i.id == root_id), instructions[-1] if instructions else None)

    @property
    def parameters(self) -> list[Instruction]:
        """Its parameters, in order."""
        return sorted((i for i in self.instructions if i.opcode == "parameter"), key=lambda i: i.parameter_number)


@dataclass(frozen=True, eq=False)
class HloGraph:
    """Instructions of a program; for a damaged program, those that could be decoded.

    computations: by id.
    by_id: instructions by id.
    entry: instructions of the computation that a run of the program executes once; the contents of
        loops run as often as their loop.
    results: shapes of the arrays that the program returns.
    donated: numbers of the parameters whose memory a result takes over.
    """

    computations: Mapping[int, Computation]
    by_id: Mapping[int, Instruction]
    entry: Sequence[Instruction]
    results: Sequence[Shape]
    donated: frozenset[int]

    @property
    def instructions(self) -> Collection[Instruction]:
        """Instructions of all computations."""
        return self.by_id.values()

    @once
    def by_name(self) -> Mapping[str, Instruction]:
        """Instructions by name."""
        return {i.name: i for computation in self.computations.values() for i in computation.instructions}

    @once
    def in_loops(self) -> frozenset[Instruction]:
        """Instructions of the bodies of loops, and of what these call."""
        left = [c for c in self.computations.values() if any(caller.opcode == "while" for caller in c.callers)]
        inside: set[Instruction] = set()
        while left:
            more = [instruction for instruction in left.pop().instructions if instruction not in inside]
            inside.update(more)
            left += [called for instruction in more if instruction.opcode != "fusion" for called in instruction.called]
        return frozenset(inside)

    @once
    def roots(self) -> frozenset[Instruction]:
        """Instructions whose results computations return."""
        return frozenset(computation.root for computation in self.computations.values() if computation.root is not None)

    @property
    def parameters(self) -> list[Instruction]:
        """Arguments of the program, in no order."""
        return [i for i in self.entry if i.opcode == "parameter"]


def _read_integer(literal: Message) -> int | None:
    """Return the first integer of a `LiteralProto`; None where it has none."""
    for field in _INTEGERS:
        if literal.has(field) and field in _PACKED_AS_BYTES:
            size, is_signed = _PACKED_AS_BYTES[field]
            return int.from_bytes(literal.content(field)[:size], "little", signed=is_signed)
        if literal.has(field):
            numbers = literal.numbers(field)
            return to_signed(numbers[0]) if numbers else None
    return None

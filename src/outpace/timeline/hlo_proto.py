"""Decoding of HLO instructions in an `HloProto`.

Field numbers are those of `xla/service/hlo.proto` and `xla/xla_data.proto`; only the few fields
named here are read. Of a damaged message, the fields before the damage are read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from outpace._caching import once
from outpace.model import protobuf_wire

FieldValue = bytes | int

_NAME, _OPCODE, _SHAPE, _METADATA, _PARAMETER, _KIND = 1, 2, 3, 7, 9, 11  # HloInstructionProto
_ALONG, _CONVOLUTION, _TARGET, _DOT = 14, 16, 28, 30
_ID, _OPERANDS, _CALLED, _CONFIG, _HOST_TRANSFER, _PRECISION, _COMPARISON = 35, 36, 38, 43, 47, 51, 63
_FRAMEWORK_OP, _FILE, _LINE, _FRAME = 2, 3, 4, 15  # OpMetadata
_TYPE, _DIMENSIONS, _TUPLE, _LAYOUT = 2, 3, 4, 5  # ShapeProto
_ORDER, _MEMORY_SPACE = 1, 8  # LayoutProto
_CONTINUES = 0x80  # bit of a varint's byte that another byte follows
_DEEPEST = 20  # maximum depth of nested tuples; deeper ones are damage


_TYPES = {  # names in a program's text by `PrimitiveType`
    **{
        1: "pred",
        2: "s8",
        3: "s16",
        4: "s32",
        5: "s64",
        6: "u8",
        7: "u16",
        8: "u32",
        9: "u64",
        10: "f16",
        11: "f32",
        12: "f64",
    },
    **{15: "c64", 16: "bf16", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4"},
}


class Shape:
    """Shape of one array.

    element_type: `PrimitiveType` of xla_data.proto.
    dimensions: sizes.
    minor_to_major: order of the dimensions in memory, fastest first.
    memory_space: memory space of the array; 0 is the device's own memory.
    """

    def __init__(self, data: bytes) -> None:
        found = dict(iter_intact_fields(data))
        self.element_type = as_int(found.get(_TYPE))
        self.dimensions = read_packed(as_bytes(found.get(_DIMENSIONS)))
        layout = dict(iter_intact_fields(as_bytes(found.get(_LAYOUT))))
        self.minor_to_major = read_packed(as_bytes(layout.get(_ORDER)))
        self.memory_space = max(as_int(layout.get(_MEMORY_SPACE)), 0)

    def __str__(self) -> str:
        """Return the shape as in a program's text: `f32[64,264]`."""
        return f"{_TYPES.get(self.element_type, f'type {self.element_type}')}[{','.join(map(str, self.dimensions))}]"

    @property
    def element_count(self) -> int:
        """Number of elements of the array."""
        count = 1
        for size in self.dimensions:
            count *= size
        return count

    @property
    def alias_key(self) -> tuple[int, int]:
        """(element type, number of elements). Arrays with equal keys can take over each other's
        memory.
        """
        return self.element_type, self.element_count


class Instruction:
    """One instruction, whose fields are decoded on access."""

    def __init__(self, data: bytes) -> None:
        self._found: dict[int, FieldValue] = dict(iter_intact_fields(data))

    @once
    def name(self) -> str:
        """Name in the program: `fusion.7`."""
        return as_text(self._found.get(_NAME))

    @once
    def opcode(self) -> str:
        """Opcode: `fusion`, `dot`, `custom-call`."""
        return as_text(self._found.get(_OPCODE))

    @property
    def id(self) -> int:
        """Id, which operands refer to."""
        return as_int(self._found.get(_ID))

    @property
    def parameter_number(self) -> int:
        """Number of a parameter in its computation, from 0; 0 for every other instruction."""
        return max(as_int(self._found.get(_PARAMETER)), 0)

    @once
    def operand_ids(self) -> list[int]:
        """Ids of the operands."""
        return read_packed(as_bytes(self._found.get(_OPERANDS)))

    @once
    def called_computation_ids(self) -> list[int]:
        """Ids of the computations that the instruction calls."""
        return read_packed(as_bytes(self._found.get(_CALLED)))

    @property
    def dimensions(self) -> list[int]:
        """Dimensions along which the instruction works; for a reduction, those that its result
        lacks.
        """
        return read_packed(as_bytes(self._found.get(_ALONG)))

    @property
    def custom_call_target(self) -> str:
        """Target of a custom call: `__cublas$gemm`."""
        return as_text(self._found.get(_TARGET))

    @property
    def backend_config(self) -> str:
        """Configuration that the compiler chose for the device: JSON, for most ops of GPUs."""
        return as_text(self._found.get(_CONFIG))

    @property
    def is_host_transfer(self) -> bool:
        """Whether the other end of a send or receive is the host."""
        return as_int(self._found.get(_HOST_TRANSFER)) > 0

    @property
    def dot_dimension_numbers(self) -> dict[int, FieldValue]:
        """Fields of `DotDimensionNumbers`."""
        return dict(iter_intact_fields(as_bytes(self._found.get(_DOT))))

    @property
    def comparison_direction(self) -> str:
        """Direction of a comparison: `EQ`, `LT`."""
        return as_text(self._found.get(_COMPARISON))

    @property
    def operand_precision(self) -> list[int]:
        """Precision that the program requests for each operand of a product: 0 default, 1 high,
        2 highest.
        """
        return read_packed(as_bytes(dict(iter_intact_fields(as_bytes(self._found.get(_PRECISION)))).get(1)))

    @property
    def convolution_dimension_numbers(self) -> dict[int, FieldValue]:
        """Fields of `ConvolutionDimensionNumbers`."""
        return dict(iter_intact_fields(as_bytes(self._found.get(_CONVOLUTION))))

    @once
    def shapes(self) -> list[Shape]:
        """Shapes of the result: one array, or the arrays of a tuple."""
        return list(iter_shapes(as_bytes(self._found.get(_SHAPE))))

    @once
    def alias_keys(self) -> frozenset[tuple[int, int]]:
        """Distinct `Shape.alias_key` of the result's arrays."""
        return frozenset(shape.alias_key for shape in self.shapes)

    @once
    def _metadata(self) -> dict[int, FieldValue]:
        return dict(iter_intact_fields(as_bytes(self._found.get(_METADATA))))

    @property
    def framework_op(self) -> str:
        """Framework op that the instruction was compiled from: `jit(step)/dot_general`."""
        return as_text(self._metadata.get(_FRAMEWORK_OP))

    @property
    def source_line(self) -> tuple[str, int]:
        """(source file, line), or ("", -1) where the program has none."""
        return as_text(self._metadata.get(_FILE)), as_int(self._metadata.get(_LINE))

    @property
    def stack_frame_id(self) -> int:
        """Number of the instruction's frame in the program's `StackFrameIndex`, from 1; 0 or less
        for none.
        """
        return as_int(self._metadata.get(_FRAME))


def iter_shapes(data: bytes, depth: int = 0) -> Iterator[Shape]:
    """Yield the arrays of a `ShapeProto`: one, or those of a tuple."""
    parts = list(iter_messages(data, _TUPLE)) if depth < _DEEPEST else []
    if not parts:
        yield Shape(data)
    for part in parts:
        yield from iter_shapes(part, depth + 1)


def read_packed(data: bytes) -> list[int]:
    """Return the numbers of a packed repeated field, up to the first damaged one."""
    if len(data) == 0 or max(data) < _CONTINUES:  # fast path for numbers of one byte, which nearly all are
        return list(data)
    values, at = [], 0
    with contextlib.suppress(ValueError):
        while at < len(data):
            value, at = protobuf_wire.read_varint(data, at)
            values.append(value)
    return values


def as_int(value: FieldValue | None) -> int:
    """Return the value of a number field; -1 where it is missing."""
    return value if isinstance(value, int) else -1


def iter_messages(data: bytes, field_number: int) -> Iterator[bytes]:
    """Yield all values of one field that has bytes."""
    return (value for field, value in iter_intact_fields(data) if field == field_number and isinstance(value, bytes))


def as_bytes(value: FieldValue | None) -> bytes:
    """Return the value of a bytes field; empty where it is missing."""
    return value if isinstance(value, bytes) else b""


def as_text(value: FieldValue | None) -> str:
    """Return the value of a text field; empty where it is missing."""
    return as_bytes(value).decode("utf-8", "replace")


def iter_intact_fields(data: bytes) -> Iterator[tuple[int, FieldValue]]:
    """Yield (field number, value) of a message: an int for a varint, bytes for every other type.
    Stops at damage.
    """
    with contextlib.suppress(ValueError):
        yield from protobuf_wire.iter_fields(data)

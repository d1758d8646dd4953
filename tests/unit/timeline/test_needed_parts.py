"""Which part of a result is read, and which part of a factor can be other than 0.

That the parts of whole programs are right, XLA's own compilations of them tell
(`tests/integration/test_parts_of_results.py`); here is what single instructions do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from outpace.model.protobuf_wire import encode_bytes, encode_integer
from outpace.timeline.hlo.module import HloModule
from tests.hlo_proto import F32, instruction, module, numbers, shape

TUPLE = 13
RANGES = {"all": (0, 16), "half": (0, 8), "other half": (8, 16), "quarter": (4, 8)}


def op(
    name: str,
    opcode: str,
    number: int,
    size: Sequence[int],
    operands: Sequence[int] = (),
    more: bytes = b"",
    order: tuple[int, ...] = (),
) -> bytes:
    """An instruction whose result is an array of this size."""
    return instruction(name, opcode, number, shape(F32, *size, order=order), operands, more=more)


def along(*dimensions: int) -> bytes:
    """The dimensions of a transpose, a broadcast or a reduction."""
    return numbers(14, dimensions)


def taken(*ranges: tuple[int, int]) -> bytes:
    """What a slice takes."""
    return b"".join(
        encode_bytes(17, encode_integer(1, first) + encode_integer(2, end) + encode_integer(3, 1)) for first, end in ranges
    )


def product(name: str, number: int, operands: Sequence[int], size: Sequence[int] = (16, 64)) -> bytes:
    """A product of [16, 32] and [32, 64]."""
    return op(name, "dot", number, size, operands, more=encode_bytes(30, numbers(1, [1]) + numbers(2, [0])))


GIVEN = [op("x", "parameter", 1, (16, 32)), op("w", "parameter", 2, (32, 64), more=encode_integer(9, 1))]


def reads(*parts: str) -> float:
    """The share of a product that is needed where these ranges of its rows are read."""
    slices = [
        op(f"part {at}", "slice", 10 + at, (RANGES[part][1] - RANGES[part][0], 64), [3], more=taken(RANGES[part], (0, 64)))
        for at, part in enumerate(parts)
    ]
    result = instruction("results", "tuple", 99, b"", list(range(10, 10 + len(parts))))
    return HloModule(module([*GIVEN, product("it", 3, [1, 2]), *slices, result]))["it"].needed_share


@pytest.mark.parametrize(
    ("parts", "share"),
    [
        (["half"], 0.5),
        (["half", "half"], 0.5),
        (["half", "other half"], 1.0),
        (["quarter", "other half"], 0.75),
        (["quarter", "all"], 1.0),
    ],
)
def test_readers_of_the_same_positions_read_them_once(parts: list[str], share: float) -> None:
    assert reads(*parts) == pytest.approx(share)


def test_the_place_that_takes_the_part_is_known() -> None:
    part = op(
        "part",
        "slice",
        4,
        (2, 64),
        [3],
        more=taken((0, 2), (0, 64)) + encode_bytes(7, encode_bytes(3, "m.py") + encode_integer(4, 9)),
    )
    program = HloModule(module([*GIVEN, product("it", 3, [1, 2]), part]))
    assert (program["it"].needed_share, program["it"].needed_at) == (0.125, "m.py:9")
    assert (program["part"].needed_share, program["part"].needed_at) == (1.0, "")


def rows_of(*between: bytes, last: int, size: Sequence[int], order: tuple[int, ...] = ()) -> float:
    """The share of a product that is needed where `between` makes another array of it, of whose
    first dimension one position is read.
    """
    ranges = [(0, 1), *((0, n) for n in size[1:])]
    part = op("part", "slice", 90, (1, *size[1:]), [last], more=taken(*ranges), order=order)
    return HloModule(module([*GIVEN, product("it", 3, [1, 2]), *between, part]))["it"].needed_share


@pytest.mark.parametrize(
    ("between", "last", "size", "share"),
    [
        ([op("y", "tanh", 4, (16, 64), [3])], 4, (16, 64), 1 / 16),
        ([op("y", "transpose", 4, (64, 16), [3], more=along(1, 0))], 4, (64, 16), 1 / 64),
        ([op("y", "reshape", 4, (4, 4, 64), [3])], 4, (4, 4, 64), 1 / 4),
        ([op("y", "reshape", 4, (1024,), [3])], 4, (1024,), 1.0),
        ([op("y", "reshape", 4, (4, 256), [3])], 4, (4, 256), 1 / 4),
        ([op("y", "bitcast", 4, (64, 16), [3], order=(0, 1))], 4, (64, 16), 1 / 64),
        ([op("y", "broadcast", 4, (8, 16, 64), [3], more=along(1, 2))], 4, (8, 16, 64), 1.0),
        ([op("y", "sort", 4, (16, 64), [3])], 4, (16, 64), 1.0),
        ([op("y", "reverse", 4, (16, 64), [3])], 4, (16, 64), 1 / 16),
    ],
    ids=["elements", "transposed", "split", "merged", "some rows", "in another layout", "repeated", "sorted", "reversed"],
)  # fmt: skip
def test_what_is_read_is_followed_through_other_shapes(
    between: list[bytes], last: int, size: tuple[int, ...], share: float
) -> None:
    assert rows_of(*between, last=last, size=size) == pytest.approx(share)


def test_a_dimension_that_is_split_elsewhere_is_read_whole() -> None:
    """The first row of [64, 16] are the first 16 of the first row of [16, 64]."""
    assert rows_of(op("y", "reshape", 4, (64, 16), [3]), last=4, size=(64, 16)) == 1.0


def padded(fill: str = "0", then: str = "", adds: bool = False) -> float:
    """The share of a product that is needed where one factor is an array of 4 rows that are padded
    to 16 by a constant, and something is done to it.
    """
    literal = encode_bytes(8, encode_bytes(1, shape(F32)) + encode_bytes(8, bytes(4) if fill == "0" else b"\x00\x00\x80\x3f"))
    edges = encode_bytes(1, encode_integer(2, 12)) + encode_bytes(1, b"")
    parts = [
        op("rows", "parameter", 1, (4, 32)),
        GIVEN[1],
        op("other", "parameter", 3, (16, 32), more=encode_integer(9, 2)),
        op("fill", "constant", 4, (), more=literal),
        op("padded", "pad", 5, (16, 32), [1, 4], more=encode_bytes(21, edges)),
    ]
    if then:
        parts.append(op("changed", then, 6, (16, 32), [5, 3] if adds else [5]))
    return HloModule(module([*parts, product("it", 7, [6 if then else 5, 2])]))["it"].needed_share


@pytest.mark.parametrize(
    ("share", "of"),
    [
        (0.25, padded()),
        (1.0, padded(fill="1")),
        (0.25, padded(then="tanh")),
        (1.0, padded(then="exponential")),
        (1.0, padded(then="cosine")),
        (0.25, padded(then="multiply", adds=True)),
        (0.25, padded(then="divide", adds=True)),
        (1.0, padded(then="add", adds=True)),
        (1.0, padded(then="maximum", adds=True)),
        (1.0, padded(then="power", adds=True)),
    ],
)
def test_products_with_zeros_are_not_needed(share: float, of: float) -> None:
    assert of == share


@pytest.mark.parametrize(("operands", "share"), [([5, 2], 0.25), ([5, 2, 8], 0.25)])
def test_calls_of_a_librarys_product_are_followed(operands: list[int], share: float) -> None:
    config = json.dumps(
        {
            "gemm_backend_config": {
                "dot_dimension_numbers": {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"]}
            }
        }
    )
    call = instruction(
        "it", "custom-call", 7, encode_integer(2, TUPLE) + encode_bytes(4, shape(F32, 16, 64)) + encode_bytes(4, shape(F32, 8)), operands,
        more=encode_bytes(28, "__cublas$gemm") + encode_bytes(43, config),
    )  # fmt: skip
    taken_out = op("result", "get-tuple-element", 9, (16, 64), [7])
    part = op("part", "slice", 10, (4, 64), [9], more=taken((0, 4), (0, 64)))
    given = [op("rows", "parameter", 5, (16, 32)), GIVEN[1], op("bias", "parameter", 8, (16, 64), more=encode_integer(9, 2))]
    assert HloModule(module([*given, call, taken_out, part]))["it"].needed_share == share


def test_a_damaged_program_is_read_to_its_end() -> None:
    """A slice of more dimensions than its operand has, and a fusion whose parameter is another
    array.
    """
    wrong = op("wrong", "slice", 4, (1, 1, 1), [3], more=taken((0, 1), (0, 1), (0, 1)))
    inside = [op("p", "parameter", 20, (3, 3, 3)), op("root", "slice", 21, (1, 3, 3), [20], more=taken((0, 1), (0, 3), (0, 3)))]
    fused = instruction("fused", "fusion", 5, shape(F32, 1, 3, 3), [3], [2])
    program = HloModule(module([*GIVEN, product("it", 3, [1, 2]), wrong, fused], inside))
    assert program["it"].needed_share == 1.0
    assert program["fused"].needed_share == 1.0


TABLE, FEW = (1000, 8), (20, 8)


def updates(rows: int = 20, then: str = "multiply", base: str = "constant") -> dict[str, float]:
    """The filled share of the ops of a program that adds the gradients of some rows of a table of
    1,000 to zeros, and the result to the table.
    """
    literal = encode_bytes(8, encode_bytes(1, shape(F32)) + encode_bytes(8, bytes(4)))
    at = encode_bytes(48, numbers(1, [1]) + numbers(2, [0]) + numbers(3, [0]) + encode_integer(4, 1))
    parts = [
        op("table", "parameter", 1, TABLE),
        op("ids", "parameter", 2, (rows, 1), more=encode_integer(9, 1)),
        op("rows", "parameter", 3, (rows, 8), more=encode_integer(9, 2)),
        op("zero", base, 4, (), more=literal if base == "constant" else encode_integer(9, 3)),
        op("zeros", "broadcast", 5, TABLE, [4]),
        op("gradient", "scatter", 6, TABLE, [5, 2, 3], more=at),
        op("scaled", then, 7, TABLE, [6, 1]),
        op("update", "subtract", 8, TABLE, [1, 7]),
        instruction("results", "tuple", 9, b"", [8]),
    ]
    program = HloModule(module(parts))
    return {
        name: program[name].filled_share for name in ("zeros", "gradient", "scaled", "update") if program[name].filled_share < 1
    }


def test_updates_of_rows_without_a_gradient_are_known() -> None:
    assert updates() == dict.fromkeys(("zeros", "gradient", "scaled", "update"), 0.02)


def test_updates_of_most_rows_are_none() -> None:
    assert updates(rows=200) == {}


def test_what_was_there_before_may_be_other_than_0() -> None:
    assert updates(base="parameter") == {}

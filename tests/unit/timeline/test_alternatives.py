"""Other ways to compute what is far above its roof, by the kind of its heaviest part."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from outpace.model.protobuf_wire import encode_bytes, encode_integer
from outpace.timeline.hlo.module import HloModule
from tests.hlo_proto import BF16, F32, instruction, module, numbers, shape
from tests.support import opened

S32 = 4


def parameter(number: int, *sizes: int, kind: int = F32) -> bytes:
    return instruction(f"given{number}", "parameter", number, shape(kind, *sizes))


def dot(result: Sequence[int], batch: bool = False) -> bytes:
    how = (
        numbers(1, [2 if batch else 1])
        + numbers(2, [1 if batch else 0])
        + (numbers(3, [0]) + numbers(4, [0]) if batch else b"")
    )
    return instruction("it", "dot", 9, shape(F32, *result), [1, 2], more=encode_bytes(30, how))


def window(*sizes: tuple[int, int]) -> bytes:
    """(size, stride) of each dimension."""
    return encode_bytes(
        15, b"".join(encode_bytes(1, encode_integer(1, size) + encode_integer(2, stride)) for size, stride in sizes)
    )


def one(opcode: str, *result: int, operands: Sequence[int] = (1,), kind: int = F32, more: bytes = b"") -> bytes:
    return instruction("it", opcode, 9, shape(kind, *result), operands, more=more)


BIG, WIDE = parameter(1, 512, 1024), parameter(2, 512, 1024)
TWO = encode_integer(2, 13) + encode_bytes(4, shape(F32, 512)) + encode_bytes(4, shape(S32, 512))
LAST, FIRST = numbers(14, [1]), numbers(14, [0])


@pytest.mark.parametrize(
    ("program", "name", "words"),
    [
        ([BIG, one("sort", 512, 1024)], "sort", "a sort of 524,288 numbers"),
        ([parameter(1, 4096, 3, 3), one("cholesky", 4096, 3, 3)], "linear_algebra", "4,096 matrices of 3 x 3, one after"),
        ([parameter(1, 1024, 1024), one("cholesky", 1024, 1024)], "linear_algebra", "linear algebra of 1,024 x 1,024"),
        ([parameter(1, 64, 32, kind=S32), parameter(2, 32, 64, kind=S32), dot([64, 64])], "product_type", "a product of s32"),
        ([parameter(1, 4096, 4, 4), parameter(2, 4096, 4, 4), dot([4096, 4, 4], batch=True)], "small_products", "4,096 matrix"),
        ([parameter(1, 64, 512, 512), parameter(2, 64, 512, 512), dot([64, 512, 512], batch=True)], "", ""),
        ([parameter(1, 512, 512), parameter(2, 512, 512), dot([512, 512])], "", ""),
        ([BIG, one("reduce-window", 256, 512, more=window((2, 2), (2, 2)))], "window", "windows of 4 numbers"),
        ([BIG, one("reduce-window", 512, 1024, more=window((1, 1), (64, 1)))], "window", "windows of 64 numbers at 524,288"),
        ([BIG, WIDE, one("select-and-scatter", 512, 1024, operands=(1, 2))], "window_gradient", "element by element"),
        ([BIG, WIDE, one("scatter", 512, 1024, operands=(1, 2, 2))], "scatter", "writes 524,288 numbers"),
        ([BIG, WIDE, one("gather", 512, 1024, operands=(1, 2))], "gather", "picks 524,288 numbers"),
        ([BIG, one("power", 512, 1024, operands=(1, 1))], "hard_function", "power of 524,288 numbers"),
        ([parameter(1, 100), one("power", 100, operands=(1, 1))], "", ""),
        ([BIG, one("remainder", 512, 1024, operands=(1, 1), kind=S32)], "integer_division", "524,288 whole numbers"),
        ([BIG, one("divide", 512, 1024, operands=(1, 1))], "", ""),
        ([parameter(1, 512, 1024, kind=BF16), one("divide", 512, 1024, operands=(1, 1), kind=BF16)], "", ""),
        ([BIG, one("reduce", 8, 8, more=numbers(14, [0, 1]))], "", ""),
        ([BIG, parameter(2, 512, kind=S32), one("gather", 512, 1024, operands=(1, 2))], "", ""),
        ([BIG, one("remainder", 512, 1024, operands=(1, 1))], "hard_function", "remainder of 524,288 numbers"),
        ([BIG, WIDE, instruction("it", "reduce", 9, TWO, [1, 2], more=LAST)], "argument", "with its indices (argmin, argmax)"),
        ([parameter(1, 1024), one("broadcast", 512, 1024)], "layout", "copies of one array"),
        ([BIG, one("reduce", 512, more=LAST)], "last_dimension", "one number at a time"),
        ([BIG, one("reduce", 1024, more=FIRST)], "", ""),
        ([BIG, one("transpose", 1024, 512)], "order", "another order of dimensions"),
        ([BIG, one("copy", 512, 1024)], "copy", "a copy of f32[512,1024], which keeps its layout"),
        (
            [BIG, instruction("it", "copy", 9, shape(F32, 512, 1024, order=(0, 1)), [1])],
            "order",
            "a copy into another layout",
        ),
        ([BIG, one("add", 512, 1024, operands=(1, 1))], "", ""),
    ],
)
def test_an_op_is_told_by_its_heaviest_part(program: list[bytes], name: str, words: str) -> None:
    case = HloModule(module(program))["it"].alternative
    assert (case.name if case else "") == name
    assert case is None or (words in case.reason and case.action and not case.action.endswith("."))


def test_an_order_that_a_matrix_product_needs_is_none_to_keep() -> None:
    moved = instruction("it", "transpose", 9, shape(F32, 1024, 512), [1])
    alone = HloModule(module([BIG, moved]))["it"].alternative
    product = instruction(
        "dot", "dot", 10, shape(F32, 1024, 1024), [9, 1], more=encode_bytes(30, numbers(1, [1]) + numbers(2, [0]))
    )
    assert alone is not None and HloModule(module([BIG, moved, product]))["it"].alternative is None


@pytest.mark.parametrize(
    "more",
    [
        [
            instruction("dot", "dot", 10, shape(F32, 1024, 1024), [2, 1]),
            instruction("out", "tuple", 11, shape(F32, 1), [9, 10]),
        ],
        [instruction("dot", "dot", 10, shape(F32, 512, 512), [1, 2])],
    ],
    ids=["a tuple of results", "an argument of both"],
)
def test_a_product_that_only_shares_something_with_a_copy_does_not_need_it(more: list[bytes]) -> None:
    moved = instruction("it", "transpose", 9, shape(F32, 1024, 512), [1])
    assert HloModule(module([BIG, WIDE, moved, *more]))["it"].alternative is not None


def test_what_puts_arrays_together_is_told_beside_a_product_too() -> None:
    joined = instruction("it", "concatenate", 9, shape(F32, 1024, 1024), [1, 2])
    product = instruction("dot", "dot", 10, shape(F32, 1024, 1024), [9, 9])
    case = HloModule(module([BIG, WIDE, joined, product]))["it"].alternative
    assert case is not None and case.name == "layout"


def along(size: int, dilation: int = 1, base_dilation: int = 1) -> bytes:
    fields = {1: size, 2: 1, 5: dilation, 6: base_dilation}
    return b"".join(encode_integer(field, value) for field, value in fields.items())


@pytest.mark.parametrize(
    ("dimension", "size", "slow"),
    [
        (along(3, dilation=2), 32, True),
        (along(2, base_dilation=2), 32, True),
        (along(3, base_dilation=2), 32, False),
        (along(16, dilation=2), 3, False),
        (along(16, dilation=2), 2, True),
        (along(3), 32, False),
    ],
    ids=["dilated", "apart", "overlapping", "gradient of an overlapping kernel", "gradient of a kernel apart", "plain"],
)
def test_convolutions_over_what_is_spread_out_are_slow_where_they_can_be_taken_apart(
    dimension: bytes, size: int, slow: bool
) -> None:
    numbered = numbers(11, [1, 2]) + encode_integer(8, 3) + encode_integer(3, 2) + encode_integer(4, 3) + numbers(6, [0, 1])
    numbered += encode_integer(10, 3) + numbers(12, [1, 2])
    more = encode_bytes(15, encode_bytes(1, dimension) * 2) + encode_bytes(16, numbered)
    given = [parameter(1, 8, 32, 32, 16), parameter(2, 3, 3, 16, 16)]
    convolution = instruction("it", "convolution", 9, shape(F32, 8, size, size, 16), [1, 2], more=more)
    case = HloModule(module([*given, convolution]))["it"].alternative
    assert (case is not None and case.name == "convolution") is slow


def test_of_a_fusion_the_part_that_is_slow_first() -> None:
    """Exponentials are cheap beside a scatter."""
    inside = [parameter(1, 512, 1024), instruction("e", "exponential", 5, shape(F32, 512, 1024), [1])]
    inside.append(instruction("s", "scatter", 6, shape(F32, 512, 1024), [5, 1, 1]))
    fusion = instruction("it", "fusion", 9, shape(F32, 512, 1024), [7], [2])
    case = HloModule(module([instruction("given", "parameter", 7, shape(F32, 512, 1024)), fusion], inside))["it"].alternative
    assert case is not None and case.name == "scatter"


def test_products_of_a_gpus_program_are_told_of_their_type_on_processors_alone() -> None:
    """On a GPU a product of bfloat16 is the fast one, and no copy, whatever is fused with it."""
    ops = [m[name] for m in opened("jax_h200_transformer").run.hosts[0].hlo_modules for name in m]
    cases = {
        (op.alternative.name, op.alternative.is_of_processors) for op in ops if op.has_product and op.alternative is not None
    }
    assert cases == {("product_type", True)}


def test_of_a_product_and_what_is_fused_with_it_the_product_counts() -> None:
    """Nor is a small array beside a large one the reason."""
    inside = [parameter(1, 512, 512), parameter(2, 512, 512), instruction("t", "transpose", 5, shape(F32, 512, 512), [2])]
    how = encode_bytes(30, numbers(1, [1]) + numbers(2, [0]))
    product = instruction("d", "dot", 6, shape(F32, 512, 512), [1, 5], more=how)
    small = [parameter(1, 8192, 1024), parameter(2, 50, 200), instruction("c", "concatenate", 5, shape(F32, 100, 200), [2, 2])]
    small.append(instruction("r", "add", 6, shape(F32, 8192, 1024), [1, 1]))
    for parts in ([*inside, product], small):
        fusion = instruction("it", "fusion", 9, shape(F32, 512, 512), [7], [2])
        given = instruction("given", "parameter", 7, shape(F32, 8192, 1024))
        assert HloModule(module([given, fusion], parts))["it"].alternative is None


@pytest.mark.parametrize(("reducer", "says"), [("add", "differences of a cumulative sum"), ("maximum", "double the window")])
def test_a_window_is_reduced_by_what_it_reduces_with(reducer: str, says: str) -> None:
    inside = [instruction("a", "parameter", 1, shape(F32)), instruction("b", reducer, 2, shape(F32), [1, 1])]
    windows = instruction("it", "reduce-window", 9, shape(F32, 512, 1024), [7], [2], more=window((1, 1), (64, 1)))
    case = HloModule(module([instruction("given", "parameter", 7, shape(F32, 512, 1024)), windows], inside))["it"].alternative
    assert case is not None and says in case.action


def test_the_part_that_is_slow_has_a_line_of_its_own() -> None:
    """A fusion has the line of its last op; its root's function may stand elsewhere."""

    def line(number: int) -> bytes:
        return encode_bytes(7, encode_bytes(2, "jit(f)/op") + encode_bytes(3, "train.py") + encode_integer(4, number))

    inside = [parameter(1, 512, 1024), instruction("root3", "cbrt", 5, shape(F32, 512, 1024), [1], more=line(33))]
    inside.append(instruction("last", "subtract", 6, shape(F32, 512, 1024), [5, 5], more=line(54)))
    fusion = instruction("it", "fusion", 9, shape(F32, 512, 1024), [7], [2], more=line(54))
    op = HloModule(module([instruction("given", "parameter", 7, shape(F32, 512, 1024)), fusion], inside))["it"]
    assert op.source == "train.py:54" and op.alternative is not None
    assert (op.alternative.reason, op.alternative.source) == ("cbrt of 524,288 numbers", "train.py:33")

"""What a program says of its ops: attentions by what they are made of, products that want all
digits, sizes of convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import sleep
from typing import Any

import pytest

from outpace.model.protobuf_wire import encode_bytes, encode_integer
from outpace.timeline.hlo.cost import model
from outpace.timeline.hlo.cost.arithmetic import arithmetic_flops
from outpace.timeline.hlo.module import HloModule
from tests.hlo_proto import BF16, F32, instruction, module, numbers, shape

HEADS, LENGTH, WIDTH = 16, 1024, 64


def dot(
    name: str, identity: int, operands: Sequence[int], *result: int, batch: Sequence[int] = (0,), more: bytes = b""
) -> bytes:
    """A product of matrices, as many as the dimensions `batch` hold."""
    how = numbers(1, [len(batch) + 1]) + numbers(2, [len(batch)]) + (numbers(3, batch) + numbers(4, batch) if batch else b"")
    return instruction(name, "dot", identity, shape(BF16, *result), operands, more=encode_bytes(30, how) + more)


def scored(*between: bytes, last: int, batch: Sequence[int] = (0,), calls: Sequence[Sequence[bytes]] = ()) -> HloModule:
    """Queries times keys (4), something `between`, whose result is number `last`, and that times
    values (99).
    """
    given = [instruction(name, "parameter", number, shape(BF16, HEADS, LENGTH, WIDTH)) for number, name in enumerate("qkv", 1)]
    scores = dot("scores", 4, (1, 2), HEADS, LENGTH, LENGTH, batch=batch)
    return HloModule(module([*given, scores, *between, dot("mixed", 99, (last, 3), HEADS, LENGTH, WIDTH, batch=batch)], *calls))


def op(name: str, opcode: str, identity: int, operands: Sequence[int], dimensions: Sequence[int] = ()) -> bytes:
    more = numbers(14, dimensions) if dimensions else b""
    return instruction(name, opcode, identity, shape(F32, HEADS, LENGTH, LENGTH), operands, more=more)


SOFTMAX = (
    op("largest", "reduce", 5, [4], [2]),
    op("below", "subtract", 6, [4, 5]),
    op("exp", "exponential", 7, [6]),
    op("sum", "reduce", 8, [7], [2]),
    op("share", "divide", 9, [7, 8]),
)


def attends(program: HloModule) -> set[str]:
    return {name for name in program if program[name].is_attention}


def test_a_softmax_between_two_batches_of_products_is_an_attention() -> None:
    """All that lies between belongs to it: a fused kernel takes its place, too. What comes in from
    beside does not.
    """
    mask = op("mask", "compare", 20, [21]), op("masked", "add", 22, [9, 20]), op("other", "negate", 23, [9])
    found = attends(scored(*SOFTMAX, *mask, last=22))
    assert found == {"scores", "largest", "below", "exp", "sum", "share", "masked", "mixed"}


def test_products_behind_an_attention_are_another_one() -> None:
    behind = dot("behind", 100, (99, 3), HEADS, LENGTH, WIDTH), dot("before", 101, (1, 3), HEADS, LENGTH, WIDTH)
    program = scored(*SOFTMAX, *behind, last=9)
    assert not program["behind"].is_attention and not program["before"].is_attention


def test_a_softmax_inside_of_a_fusion() -> None:
    """XLA fuses what lies between, and computes in another type than it stores."""
    inside = [
        instruction("p", "parameter", 50, shape(BF16, HEADS, LENGTH, LENGTH)),
        op("below", "subtract", 51, [50]),
        op("wide", "convert", 52, [51]),
        op("exp", "exponential", 53, [52]),
    ]
    fused = instruction("softmax", "fusion", 7, shape(BF16, HEADS, LENGTH, LENGTH), [4], [2])
    assert attends(scored(fused, last=7, calls=[inside])) >= {"scores", "softmax", "mixed"}


@pytest.mark.parametrize(
    "between, last",
    [
        ((op("exp", "exponential", 7, [4]),), 7),
        ((op("minus", "negate", 5, [4]), op("exp", "exponential", 7, [5])), 7),
        ((op("tanh", "tanh", 7, [4]),), 7),
        (SOFTMAX, 1),
    ],
    ids=["an exponential", "a sigmoid's, as of a mixture of experts", "another function", "a result that no product takes"],
)
def test_other_things_between_products_are_none(between: Sequence[bytes], last: int) -> None:
    assert attends(scored(*between, last=last)) == set()


def test_products_that_are_no_batches_are_none() -> None:
    """The softmax of a loss stands between the logits and their gradient."""
    assert attends(scored(*SOFTMAX, last=9, batch=())) == set()


@pytest.mark.parametrize(
    "along, batch, found", [([0], [0], False), ([2], [0], True), ([0], [0, 1], True), ([0, 1], [0, 1], False)]
)
def test_a_product_whose_sum_is_divided_is_no_batch(along: list[int], batch: list[int], found: bool) -> None:
    """XLA has more of the device work on a sum in parts, which what takes the result adds up
    (split-K): all of the batch, not some of it.
    """
    added = op("added", "reduce", 98, [4], along)
    assert ("scores" in attends(scored(*SOFTMAX, added, last=9, batch=batch))) is found


@pytest.mark.parametrize("size, found", [((HEADS, LENGTH, LENGTH), False), ((HEADS, LENGTH), True)])
def test_what_is_added_up_inside_of_a_fusion_is_no_batch(size: tuple[int, ...], found: bool) -> None:
    """The product itself, and not something else in that fusion."""
    inside = [instruction("p", "parameter", 50, shape(F32, *size)), op("added", "reduce", 51, [50], [0])]
    fused = instruction("fused", "fusion", 98, shape(F32, LENGTH, LENGTH), [4], [2])
    assert ("scores" in attends(scored(*SOFTMAX, fused, last=9, calls=[inside]))) is found


def test_a_librarys_products_are_batches_by_what_the_compiler_noted() -> None:
    def call(name: str, identity: int, operands: Sequence[int], batch: str) -> bytes:
        config = f'{{"gemm_backend_config":{{"dot_dimension_numbers":{{"lhs_batch_dimensions":[{batch}]}}}}}}'
        return instruction(
            name, "custom-call", identity, shape(BF16, HEADS, LENGTH, LENGTH), operands, more=encode_bytes(43, config)
        )

    whole = {"scores", "largest", "below", "exp", "sum", "share", "mixed"}
    for batch, found in (('"0"', whole), ('"0","1"', whole), ("", set())):
        parts = [call("scores", 4, (1, 2), batch), *SOFTMAX, call("mixed", 99, (9, 3), batch)]
        assert attends(HloModule(module(parts))) == found


def test_a_softmax_far_from_products_is_none() -> None:
    """The limit is four instructions."""
    chain = [op(f"step{number}", "add", 20 + number, [9 if number == 0 else 19 + number]) for number in range(3)]
    assert "mixed" in attends(scored(*SOFTMAX, *chain[:2], last=21))
    assert attends(scored(*SOFTMAX, *chain, last=22)) == set()


@pytest.mark.parametrize("asked, found", [((), False), ((0, 0), False), ((1, 1), False), ((2, 2), True), ((0, 2), True)])
def test_products_that_want_all_digits(asked: Sequence[int], found: bool) -> None:
    """`Precision.HIGHEST`, alone and inside of a fusion."""
    more = encode_bytes(51, numbers(1, asked)) if asked else b""
    product = dot("dot", 3, (1, 2), 64, 64, batch=(), more=more)
    given = [instruction(name, "parameter", number, shape(F32, 64, 64)) for number, name in enumerate("ab", 1)]
    program = HloModule(module([instruction("fused", "fusion", 9, shape(F32, 64, 64), (), [2])], [*given, product]))
    assert (program["dot"].is_highest_precision, program["fused"].is_highest_precision) == (found, found)


def looked_up(direction: str, *, masks: bool = False, given_ids: bool = True, filled: bool = False) -> HloModule:
    """A table times what a fusion makes of ids by comparing them with a count; `masks`: the result
    of that chooses scores; without ids it compares two counts; `filled`: what is beside its rows is
    another array's.
    """
    wide = shape(F32, 64, 1000)
    compared = instruction("is", "compare", 12, shape(1, 64, 1000), [11, 10], more=encode_bytes(63, direction))
    last = instruction("rows", "select" if masks else "convert", 13, wide, [12, 2, 2] if masks else [12])
    ids = instruction("taken", "parameter", 9, shape(4, 64)) if given_ids else instruction("rows", "iota", 9, shape(4, 64))
    makes = [ids, instruction("count", "iota", 10, wide), instruction("wide", "broadcast", 11, wide, [9]), compared, last]
    given = [instruction("ids", "parameter", 1, shape(4, 64)), instruction("table", "parameter", 2, shape(F32, 1000, 16))]
    fusion = [instruction("fused", "fusion", 20, wide, [1], [2])]
    moved = instruction("moved", "pad", 21, wide, [20, 2]) if filled else instruction("moved", "bitcast", 21, wide, [20])
    return HloModule(module([*given, *fusion, moved, dot("found", 22, (21, 2), 64, 16, batch=())], makes))


@pytest.mark.parametrize(
    "program, found",
    [
        (looked_up("EQ"), {"found", "moved", "fused"}),
        (looked_up("LT"), set()),
        (looked_up("EQ", masks=True), set()),
        (looked_up("EQ", given_ids=False), set()),
        (looked_up("EQ", filled=True), set()),
    ],
    ids=[
        "one-hot",
        "a mask of what came before",
        "a choice",
        "an identity matrix",
        "with something else",
    ],
)
def test_a_product_with_rows_that_are_0_but_for_one_place(program: HloModule, found: set[str]) -> None:
    assert {name for name in program if program[name].is_one_hot} == found


def convolution(images: Sequence[int], kernel: Sequence[int], output: Sequence[int], target: str = "") -> HloModule:
    """Images of [n, height, width, channels], a kernel of [height, width, in, out]; `target`:
    cuDNN's call.
    """
    places = {3: 2, 4: 3, 7: 0, 8: 3, 9: 0, 10: 3}
    slides = numbers(6, [0, 1]) + numbers(11, [1, 2]) + numbers(12, [1, 2])
    how = encode_bytes(16, b"".join(encode_integer(*place) for place in places.items()) + slides)
    how += encode_bytes(15, encode_bytes(1, encode_integer(1, 3) + encode_integer(2, 1)) * 2)
    arrays = {"images": images, "kernel": kernel, "output": output}
    takes, gives = {"Input": (("output", "kernel"), "images"), "Filter": (("images", "output"), "kernel")}.get(
        target.rpartition("Backward")[2], (("images", "kernel"), "output")
    )
    given = [instruction(name, "parameter", number, shape(F32, *arrays[name])) for number, name in enumerate(takes, 1)]
    called = encode_bytes(28, target) if target else b""
    opcode = "custom-call" if target else "convolution"
    return HloModule(module([*given, instruction("conv", opcode, 3, shape(F32, *arrays[gives]), [1, 2], more=how + called)]))


TARGETS = ("", "__cudnn$convForward", "__cudnn$convBackwardInput", "__cudnn$convBackwardFilter")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "size, into, out, aligned", [(7, 64, 128, True), (8, 3, 64, False), (8, 64, 10, False), (9, 8, 8, True)]
)
def test_of_a_convolution_channels_are_to_be_multiples_of_8(size: int, into: int, out: int, aligned: bool, target: str) -> None:
    """Not the size of its images, nor of its kernel of 3 x 3; of gradients the same as forward, and
    as many operations.
    """
    program = convolution((32, size + 2, size + 2, into), (3, 3, into, out), (32, size, size, out), target)
    assert program["conv"].is_aligned is aligned
    assert program["conv"].cost.flops == 2 * 32 * size * size * out * 9 * into


@pytest.mark.parametrize(
    "rows, inner, columns, aligned", [(64, 64, 64, True), (60, 64, 64, False), (64, 60, 64, False), (64, 64, 60, False)]
)
def test_of_a_product_all_sizes_are_to_be_multiples_of_8(rows: int, inner: int, columns: int, aligned: bool) -> None:
    given = [
        instruction("a", "parameter", 1, shape(F32, rows, inner)),
        instruction("b", "parameter", 2, shape(F32, inner, columns)),
    ]
    how = encode_bytes(30, numbers(1, [1]) + numbers(2, [0]))
    program = HloModule(module([*given, instruction("dot", "dot", 3, shape(F32, rows, columns), [1, 2], more=how)]))
    assert program["dot"].is_aligned is aligned


@pytest.mark.parametrize(
    "parts",
    [
        [op("cast", "convert", 1, [1]), op("exp", "exponential", 2, [1])],
        [op("cast", "convert", 1, [3]), op("other", "convert", 3, [1]), op("exp", "exponential", 2, [1])],
        [op("moved", "bitcast", 1, [1]), dot("dot", 2, (1, 1), 8, 8)],
        [
            instruction("fused", "fusion", 1, shape(F32, 8), [1, 2], [1]),
            instruction("called", "call", 2, shape(F32, 8), [1], [1]),
        ],
        [op("copy", "copy", 1, [1]), op("exp", "exponential", 1, [1, 1]), dot("dot", 1, (1, 1), 8, 8)],
        [op("exp", "exponential", 7, [7]), dot("dot", 4, (7, 4), 8, 8), dot("mixed", 5, (7, 4), 8, 8)],
    ],
    ids=[
        "a cast of itself",
        "casts of each other",
        "a form of itself",
        "a call of itself",
        "one number",
        "a circle of products",
    ],
)
def test_a_program_in_circles_is_read_to_its_end(parts: Sequence[bytes]) -> None:
    program = HloModule(module(parts))
    assert [program[name].opcode for name in program]
    assert (program.signature, program.schedules) == ({"its result": "type -1[]"}, [])


@pytest.mark.parametrize("count, found", [(0, True), (4, True), (5, False)])
def test_casts_before_an_exponential_are_seen_through(count: int, found: bool) -> None:
    """As many as four."""
    casts = [op(f"cast{n}", "convert", 60 + n, [51 if n == 0 else 59 + n]) for n in range(count)]
    inside = [
        instruction("p", "parameter", 50, shape(BF16, HEADS, LENGTH, LENGTH)),
        op("below", "subtract", 51, [50]),
        *casts,
        op("exp", "exponential", 53, [59 + count if count else 51]),
    ]
    fused = instruction("softmax", "fusion", 7, shape(BF16, HEADS, LENGTH, LENGTH), [4], [2])
    assert ("softmax" in attends(scored(fused, last=7, calls=[inside]))) is found


FORWARD, BACKWARD = "jit(step)/jvp()/tanh", "jit(step)/transpose(jvp())/mul"
AGAIN = "jit(step)/transpose(jvp())/checkpoint/rematted_computation/dot_general"


@pytest.mark.parametrize(
    "users, is_repeat",
    [
        ([BACKWARD], True),
        ([FORWARD], False),
        ([AGAIN, BACKWARD], True),
        ([AGAIN, FORWARD], False),
        (["", FORWARD], False),
        ([BACKWARD, FORWARD], True),
    ],
    ids=["a backward op", "a forward op", "a repeat", "a repeat that a forward op uses", "a copy of the compiler's", "far off"],
)
def test_a_repeat_is_used_by_the_backward_pass_alone(users: list[str], is_repeat: bool) -> None:
    """XLA merges a repeat with the first computation, and what is left may have the repeat's name.
    `users`: names of a chain of ops.
    """
    named = [encode_bytes(7, encode_bytes(2, name)) if name else b"" for name in (AGAIN, *users)]
    given = instruction("given", "parameter", 1, shape(F32, 8))
    chain = [instruction(f"op.{n}", "tanh", 2 + n, shape(F32, 8), [1 + n], more=more) for n, more in enumerate(named)]
    assert HloModule(module([given, *chain]))["op.0"].is_repeat is is_repeat


def looped(*body: bytes, results: Sequence[int], tested: int = 2) -> set[str]:
    """The products that could be computed once in a loop over (0: a sum, 1: weights, 2: what
    changes), which returns these results, and whose condition reads one of the three.
    """
    carried = [
        instruction(name, "get-tuple-element", number, shape(F32, 8, 8), [10], more=encode_integer(13, number - 11))
        for number, name in enumerate(("sum", "weights", "changes"), 11)
    ]
    root = instruction("root", "tuple", 99, shape(F32, 8, 8), results)
    inside = [instruction("carried", "parameter", 10, shape(F32, 8, 8)), *carried, *body, root]
    read = instruction("on", "get-tuple-element", 51, shape(F32, 8, 8), [50], more=encode_integer(13, tested))
    goes_on = [instruction("going", "parameter", 50, shape(F32, 8, 8)), read]
    outside = [
        instruction("given", "parameter", 1, shape(F32, 8, 8)),
        instruction("loop", "while", 2, shape(F32, 8, 8), [1], [2, 3]),
    ]
    found = HloModule(module(outside, inside, goes_on))
    return {name for name in found if found[name].is_hoistable}


MOVED = op("moved", "tanh", 14, [13])
PRODUCT = dot("product", 15, (14, 12), 8, 8, batch=())
ADDED = op("added", "add", 16, [11, 15])


def test_a_product_with_what_stays_the_same_is_added_up_before_it_is_multiplied() -> None:
    assert looped(MOVED, PRODUCT, ADDED, results=(16, 12, 14)) == {"product"}


def test_a_product_of_what_stays_the_same_is_computed_once() -> None:
    assert looped(MOVED, dot("squared", 15, (12, 12), 8, 8, batch=()), ADDED, results=(16, 12, 14)) == {"squared"}


@pytest.mark.parametrize(
    ("body", "results"),
    [
        ((MOVED, PRODUCT, ADDED), (16, 14, 14)),
        ((MOVED, PRODUCT, ADDED), (15, 12, 14)),
        ((MOVED, PRODUCT, ADDED), (16, 12, 15)),
        ((MOVED, dot("product", 15, (14, 13), 8, 8, batch=()), ADDED), (16, 12, 14)),
        ((MOVED, PRODUCT, op("added", "multiply", 16, [11, 15])), (16, 12, 14)),
        ((MOVED, PRODUCT, op("added", "add", 16, [13, 15])), (16, 12, 14)),
        ((op("moved", "tanh", 14, [11]), PRODUCT, ADDED), (16, 12, 14)),
        ((MOVED, PRODUCT, ADDED, op("next", "tanh", 17, [16])), (16, 12, 17)),
        ((MOVED, PRODUCT, ADDED), (16, 12, 16)),
        (
            (op("turned", "bitcast", 18, [11]), op("moved", "tanh", 14, [18]), PRODUCT, op("added", "add", 16, [18, 15])),
            (16, 12, 14),
        ),
        ((MOVED, PRODUCT, op("bent", "tanh", 17, [15]), op("added", "add", 16, [11, 17])), (16, 12, 14)),
    ],
    ids=[
        "weights that change",
        "no sum",
        "a product that is used besides",
        "two factors that change",
        "no addition",
        "another sum",
        "a sum that is read",
        "a new sum that another state reads",
        "a sum that is returned twice",
        "a sum that is read behind a change of its layout",
        "a function of the product",
    ],
)
def test_other_products_of_loops_are_needed_in_each_iteration(body: Sequence[bytes], results: Sequence[int]) -> None:
    assert looped(*body, results=results) == set()


def test_a_sum_that_the_condition_reads_is_needed_in_each_iteration() -> None:
    assert looped(MOVED, PRODUCT, ADDED, results=(16, 12, 14), tested=0) == set()


def joined(*program: bytes, calls: Sequence[Sequence[bytes]] = ()) -> set[str]:
    """The products of a program of `x` (1) and weights (2 to 4) that could be one."""
    given = [instruction(name, "parameter", number, shape(BF16, 8, 8)) for number, name in enumerate(("x", "a", "b", "c"), 1)]
    found = HloModule(module([*given, *program], *calls))
    return {name for name in found if found[name].is_joinable}


def times(name: str, number: int, left: int, right: int, more: bytes = b"") -> bytes:
    return dot(name, number, (left, right), 8, 8, batch=(), more=more)


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ([times("q", 5, 1, 2), times("k", 6, 1, 3), times("v", 7, 1, 4)], {"q", "k", "v"}),
        ([op("cast", "convert", 5, [1]), times("q", 6, 5, 2), times("k", 7, 1, 3)], {"q", "k"}),
        ([times("hidden", 5, 1, 2), times("out", 6, 5, 3)], set()),
        ([times("first", 5, 1, 4), op("bent", "tanh", 6, [5]), times("again", 7, 6, 4)], set()),
        ([times("forward", 5, 1, 2), times("gradient", 6, 2, 1)], set()),
    ],
    ids=["of one input", "of one input, cast", "of layers", "of one weight, step by step", "summed along another dimension"],
)
def test_products_of_one_array_are_joinable_unless_one_needs_another(program: Sequence[bytes], names: set[str]) -> None:
    assert joined(*program) == names


def test_products_inside_of_fusions_take_what_the_fusion_takes() -> None:
    fused = [
        instruction("given", "parameter", 20, shape(BF16, 8, 8)),
        instruction("factor", "parameter", 21, shape(BF16, 8, 8), more=encode_integer(9, 1)),
        times("inside", 22, 20, 21),
    ]
    fusion = instruction("fused", "fusion", 6, shape(BF16, 8, 8), [1, 3], [2])
    assert joined(times("q", 5, 1, 2), fusion, calls=[fused]) == {"q", "fused"}
    assert joined(fusion, calls=[fused]) == set()


def test_a_thread_sees_no_sum_of_another_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pages ask for one fusion's operations at the same time."""
    fused = [
        instruction("given", "parameter", 20, shape(BF16, 8, 8)),
        instruction("factor", "parameter", 21, shape(BF16, 8, 8), more=encode_integer(9, 1)),
        times("inside", 22, 20, 21),
    ]
    given = [instruction(name, "parameter", number, shape(BF16, 8, 8)) for number, name in enumerate("xa", 1)]
    program = HloModule(module([*given, instruction("fused", "fusion", 6, shape(BF16, 8, 8), [1, 2], [2])], fused))
    begun, count = Event(), arithmetic_flops

    def slowly(*given: Any) -> Any:
        begun.set()
        sleep(0.05)
        return count(*given)

    monkeypatch.setattr(model, "arithmetic_flops", slowly)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lambda: program["fused"].cost.flops)
        begun.wait(5)
        assert threads.submit(lambda: program["fused"].cost.flops).result() == first.result() == 2 * 8**3

"""Why a function was compiled again, by the programs that it became."""

from __future__ import annotations

from typing import Any

import pytest

from outpace.testing import SpaceBuilder
from outpace.timeline.hlo.module import HloModule
from outpace.timeline.hlo.modules import HloModules
from outpace.tools.functions.recompilation import Recompilation, find_recompilation
from outpace.tools.functions.retracing import DTYPE, SAME_ARGUMENTS, SAME_ARRAYS, SAME_PROGRAM, SHAPE, STRUCTURE
from outpace.trace import read_trace
from tests.hlo_proto import F32, S32, program, shape

WEIGHTS = shape(F32, 4, 2)
STAYS = ", though its arguments keep their shapes and types"


def stepped(*lengths: int, of: int = F32, says: str = "") -> list[HloModule]:
    """Programs that update weights by batches of different lengths."""
    return [HloModule(program({"w": WEIGHTS, "x": shape(of, n, 4)}, WEIGHTS, shape(F32, n), says=says)) for n in lengths]


def told(*programs: HloModule) -> Recompilation:
    found = find_recompilation(programs)
    assert found is not None
    return found


def test_a_signature_names_arguments_in_their_order_and_results() -> None:
    (batch,) = stepped(8)
    assert list(batch.signature.items()) == [
        ("w", "f32[4,2]"), ("x", "f32[8,4]"), ("result 0", "f32[4,2]"), ("result 1", "f32[8]"),
    ]  # fmt: skip
    assert HloModule(program({}, shape(S32))).signature == {"its result": "s32[]"}


def test_a_shape_that_changes_is_named_before_results_that_follow() -> None:
    assert told(*stepped(8, 9)) == Recompilation(", because of x: f32[8,4] → f32[9,4]", "x", ((SHAPE, 1),))
    assert told(*stepped(8, 9, 10, 11)).explanation == ", because of x: f32[8,4] → f32[9,4] → ... → f32[11,4]"


def test_more_arguments_are_counted() -> None:
    short, long = (HloModule(program({"x": shape(F32, n), "y": shape(F32, n)}, WEIGHTS)) for n in (8, 9))
    assert told(short, long).explanation == ", because of x: f32[8] → f32[9] and 1 more argument"


def test_a_size_that_is_static_shows_in_the_result() -> None:
    """`jnp.ones((n, 4))` takes the same number each time."""
    ones = [HloModule(program({"x": shape(F32)}, shape(F32, n, 4))) for n in (8, 9)]
    assert told(*ones) == Recompilation(", because of its result: f32[8,4] → f32[9,4]", "its result", ((SHAPE, 1),))


def test_types_and_arguments_that_come_and_go() -> None:
    assert told(*stepped(8), *stepped(8, of=S32)).causes == ((DTYPE, 1),)
    with_mask = HloModule(program({"w": WEIGHTS, "x": shape(F32, 8, 4), "mask": shape(F32, 8)}, WEIGHTS, shape(F32, 8)))
    assert told(*stepped(8), with_mask) == Recompilation(", because of mask: nothing → f32[8]", "mask", ((STRUCTURE, 1),))


def test_where_arrays_stay_it_is_a_value_or_the_function() -> None:
    rates = [each for rate in ("0.1", "0.05", "0.02") for each in stepped(8, says=rate)]
    assert told(*rates) == Recompilation(STAYS, "", ((SAME_ARRAYS, 2),))
    assert told(*stepped(8, 8, 8)) == Recompilation(f"{STAYS}, each time to the same program", "", ((SAME_ARGUMENTS, 2),))
    assert told(*stepped(8, 8), *stepped(8, says="0.05")).causes == ((SAME_ARRAYS, 2),)


def test_a_program_that_was_compiled_twice_may_be_that_of_another_form_of_its_arguments() -> None:
    """`f(x, 0.1)` and `f(x, np.float32(0.1))` are two, as are arrays on two devices; no loop makes
    more of them.
    """
    assert told(*stepped(8, 8)) == Recompilation(f"{STAYS}, each time to the same program", "", ((SAME_PROGRAM, 1),))


def test_both_are_told_where_both_happen() -> None:
    """Three lengths come round, and each time the function is made anew."""
    found = told(*stepped(8, 9, 10, 8, 9, 10, 8, 9, 10))
    assert found.causes == ((SAME_ARGUMENTS, 6), (SHAPE, 2))
    assert "same program" not in found.explanation


def test_one_program_tells_nothing() -> None:
    assert find_recompilation(stepped(8)) is None
    assert find_recompilation([]) is None


@pytest.mark.parametrize("number", [8, 2**64 - 5, -5])
def test_a_program_is_found_by_its_id_signed_or_not(number: int) -> None:
    """Ids that are hashes fill 64 bits: stats state them as signed numbers, names as unsigned."""
    space = SpaceBuilder("vm")
    described: dict[str, Any] = {"Hlo Proto": program({"x": shape(F32, 3)}, WEIGHTS)}
    space.plane("/host:metadata").describe(f"jit_step({number % 2**64})", **described)
    programs = HloModules(read_trace(space.to_bytes(), "vm"))
    assert programs[number].signature["x"] == "f32[3]"
    assert not list(programs[7])


@pytest.mark.parametrize(
    ("function", "name"), [("train", "jit_train"), ("<lambda>", "jit__lambda"), ("<lambda>", "jit__lambda_")]
)
def test_what_was_compiled_last_is_compared(function: str, name: str) -> None:
    """Ids count up, in whatever order they stand; on TPUs they are hashes, which tell no order: all
    are compared.
    """

    def last(*ids: int) -> list[str]:
        space = SpaceBuilder("vm")
        plane = space.plane("/host:metadata")
        for each in ids:
            stats: dict[str, Any] = {"Hlo Proto": program({"x": shape(F32, each % 100)}, WEIGHTS)}
            plane.describe(f"{name}({each})", **stats).describe(f"jit_other({each + 1})", **stats)
        found = HloModules(read_trace(space.to_bytes(), "vm")).find_newest(function, 2)
        return [each.signature["x"] for each in found]

    assert last(320, 105, 210) == ["f32[10]", "f32[20]"]
    assert last(2**40 + 1, 2**41, 7) == ["f32[7]", "f32[77]", "f32[52]"]

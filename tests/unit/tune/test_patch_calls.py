"""Patches on a row of calls: order, and what cannot be said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from outpace.store.record import PipelineStage
from outpace.tune.optimisations.optimisation import UNRECORDED, Patch
from outpace.tune.patch.calls import Call, Unpatchable, arranged

SOURCE, SHUFFLE, REPEAT, MAP, BATCH = range(5)
OPS = ("range", "shuffle", "repeat", "map", "batch")


ROW = tuple(Call(at, PipelineStage(at, op, None, "train.py", at + 1, f".{op}()")) for at, op in enumerate(OPS))


def ops(calls: Sequence[Call]) -> list[str | None]:
    return [call.place.op if call.place is not None else call.text for call in calls]


def test_what_moves_stands_behind_what_was_inserted_and_in_its_own_order() -> None:
    patches = [Patch(MAP, insert=".cache()"), Patch(SHUFFLE, after=MAP), Patch(REPEAT, after=MAP)]
    after = arranged(ROW, patches)
    assert ops(after) == ["range", "map", ".cache()", "shuffle", "repeat", "batch"]
    assert ops([call for call in after if call.moved]) == ["shuffle", "repeat"]


def test_a_divided_map_comes_twice_and_nothing_of_the_user_s_has_to_move() -> None:
    patches = [Patch(SOURCE, insert=".cache()", divides=MAP), Patch(SHUFFLE, after=SOURCE), Patch(REPEAT, after=SOURCE)]
    after = arranged(ROW, patches)
    assert ops(after) == ["range", None, ".cache()", "shuffle", "repeat", "map", "batch"]
    assert not any(call.moved for call in after)
    assert after[1].first_part_of == MAP and after[5].divided


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (Patch(UNRECORDED, insert=".cache()"), "recorder does not see"),
        (Patch(SHUFFLE, after=UNRECORDED), "recorder does not see"),
        (Patch(SOURCE, insert=".cache()", divides=UNRECORDED), "recorder does not see"),
        (Patch(99, insert=".cache()"), "main line"),
        (Patch(MAP, note="wrap the function"), "wrap the function"),
        (Patch(SHUFFLE, insert=".cache()", divides=99), "main line"),
    ],
)
def test_what_cannot_be_said_is_refused_with_the_reason(patch: Patch, reason: str) -> None:
    with pytest.raises(Unpatchable) as refused:
        arranged(ROW, [patch])
    assert reason in str(refused.value)

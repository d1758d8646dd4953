"""Patches on a row of calls: order, composition, and what cannot be said."""

from __future__ import annotations

import pytest

from outpace.store.record import PipelineStage
from outpace.tune.optimisations.optimisation import Patch
from outpace.tune.patch.calls import Call, Row, Unpatchable, collapsed

SOURCE, SHUFFLE, REPEAT, MAP, BATCH = range(5)
OPS = ("range", "shuffle", "repeat", "map", "batch")


def row() -> Row:
    return Row.of(Call(at, op, PipelineStage(at, op, None, "train.py", at + 1, f".{op}()")) for at, op in enumerate(OPS))


def ops(of: Row) -> list[str | None]:
    return [call.op for call in of.calls]


def test_what_moves_stands_behind_what_was_inserted_and_in_its_own_order() -> None:
    patches = [Patch(MAP, insert=".cache()"), Patch(SHUFFLE, after=MAP, remove=True), Patch(REPEAT, after=MAP, remove=True)]
    after = row().patched(patches)
    assert ops(after) == ["range", "map", "cache", "shuffle", "repeat", "batch"]
    assert [call.op for call in after.standing() if call.moved] == ["shuffle", "repeat"]


def test_a_divided_map_comes_twice_and_nothing_of_the_user_s_has_to_move() -> None:
    patches = [Patch(SOURCE, insert=".cache()", divides=MAP), Patch(SHUFFLE, after=SOURCE), Patch(REPEAT, after=SOURCE)]
    after = row().patched(patches)
    assert ops(after) == ["range", "map", "cache", "shuffle", "repeat", "map", "batch"]
    assert not any(call.moved for call in after.standing())
    assert after.calls[1].first_part_of == MAP and after.calls[5].divided


def test_rewrites_compose_on_what_the_one_before_added() -> None:
    after = row().patched([Patch(MAP, insert=".cache()")])
    cache = after.calls[4]
    assert cache.new and cache.key < 0
    again = after.patched([Patch(SHUFFLE, after=cache.key), Patch(MAP, {"num_parallel_calls": "4"})])
    assert ops(again) == ["range", "repeat", "map", "cache", "shuffle", "batch"]
    assert again.patched([Patch(MAP, {"deterministic": "False"})]).calls[2].keywords == {
        "num_parallel_calls": "4",
        "deterministic": "False",
    }


def test_options_of_two_rewrites_are_one_object() -> None:
    after = row().patched([Patch(BATCH, insert=".with_options(options)", options={"deterministic": "False"})])
    last = after.calls[-1]
    after = after.patched([Patch(last.key, options={"threading.private_threadpool_size": "2"})])
    assert ops(after).count("with_options") == 1
    assert after.calls[-1].options == {"deterministic": "False", "threading.private_threadpool_size": "2"}


def test_arguments_of_calls_beside_the_main_line_are_kept() -> None:
    assert row().patched([Patch(99, {"num_parallel_calls": "4"})]).beside == {99: {"num_parallel_calls": "4"}}


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (Patch(None, insert=".cache()"), "recorder does not see"),
        (Patch(MAP, insert=".cache(filename)"), "filename of .cache(filename) is yours to choose"),
        (Patch(99, insert=".cache()"), "main line"),
        (Patch(MAP, note="wrap the function"), "wrap the function"),
        (Patch(SHUFFLE, insert=".cache()", divides=99), "main line"),
    ],
)
def test_what_cannot_be_said_is_refused_with_the_reason(patch: Patch, reason: str) -> None:
    with pytest.raises(Unpatchable) as refused:
        row().patched([patch])
    assert reason in str(refused.value)


def test_a_function_is_divided_once() -> None:
    after = row().patched([Patch(SOURCE, insert=".cache()", divides=MAP)])
    with pytest.raises(Unpatchable, match="divided already"):
        after.patched([Patch(SOURCE, insert=".cache()", divides=MAP)])


def test_options_in_a_row_count_once() -> None:
    assert collapsed(["map", "with_options", "with_options", "batch"]) == ["map", "with_options", "batch"]

"""Memory logs: joining by address, order, steps, damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from outpace.testing import Inline, Unsigned
from outpace.tools.memory_profile.data_types import data_type_name
from outpace.tools.memory_profile.dictionary_column import group_by_keys
from outpace.tools.memory_profile.memory_log import MemoryLog, _join, build_memory_logs
from tests.unit.tools_memory_profile.memory_samples import MS, Memory, host, opened


def only_log(folder: Path, *spaces: object) -> MemoryLog:
    ((log,), lost) = build_memory_logs(opened(folder, *spaces).run)  # type: ignore[arg-type]
    assert lost == 0
    return log


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=40))
def test_join_is_what_a_loop_finds(events: list[tuple[int, bool]]) -> None:
    """A deallocation frees what was last allocated at its address, once."""
    address = np.array([a for a, _ in events], np.int64)
    is_allocation = np.array([k for _, k in events], bool)
    taken: dict[int, int] = {}
    expected = [-1] * len(events)
    live = []
    for at, (where, allocates) in enumerate(events):
        if allocates:
            taken[where] = at
        elif where in taken:
            first = taken.pop(where)
            expected[first], expected[at] = at, first
        live.append(sorted(taken.values()))
    partner, following = _join(address, is_allocation)
    assert partner.tolist() == expected
    for at, held in enumerate(live):
        assert np.flatnonzero(is_allocation[: at + 1] & (following[: at + 1] > at)).tolist() == held


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=30))
def test_alike_groups_every_member_once(keys: list[tuple[int, int]]) -> None:
    first, second = (np.array([k[i] for k in keys], np.int64) for i in (0, 1))
    groups = [g.tolist() for g in group_by_keys(np.arange(len(keys)), first, second)]
    assert sorted(i for g in groups for i in g) == list(range(len(keys)))
    assert len(groups) == len(set(keys))
    assert all(len({keys[i] for i in g}) == 1 and g == sorted(g) for g in groups)


def test_a_deallocation_takes_over_what_its_allocation_says(tmp_path: Path) -> None:
    space = host(1)
    memory = Memory(space)
    memory.take(1, 7, 64, tf_op="a/MatMul", region_type="temp", shape="[16]", data_type=1)
    memory.free(2, 7, 64)
    memory.take(3, 7, 32, tf_op="b/Add", region_type="output", shape="[8]", data_type=3)  # the address again
    log = only_log(tmp_path, space)
    assert log.op.texts().tolist() == ["a/MatMul", "a/MatMul", "b/Add"]
    assert log.data_type.texts().tolist() == ["float", "float", "int32"]
    assert log.find_live(2).tolist() == [2]
    assert log.bytes_in_use.tolist() == [64, 0, 32]


def test_what_was_allocated_before_the_capture(tmp_path: Path) -> None:
    space = host(1)
    memory = Memory(space, used=500)
    memory.free(1, 9, 200)
    memory.take(2, 7, 100, tf_op="a")
    profile = opened(tmp_path, space)
    (row,) = profile.page("memory_profile").table("memories").records()
    assert row["freed_before_bytes"] == 200
    assert (row["peak_bytes"], row["step_bytes"], row["before_bytes"]) == (400, 100, 300)
    assert row["unfreed"] == 1


def test_events_of_several_threads_are_put_in_order(tmp_path: Path) -> None:
    space = host(1, threads=2)
    memory = Memory(space)
    memory.take(10, 7, 100)
    memory.thread = 1
    memory.free(20, 7, 100)
    memory.thread = 0
    memory.take(30, 7, 50)
    memory.thread = 1
    memory.take(40, 8, 60)
    log = only_log(tmp_path, space)
    assert log.bytes_in_use.tolist() == [100, 0, 50, 110]
    assert log.find_live(3).tolist() == [2, 3]


def test_a_deallocation_that_was_not_recorded(tmp_path: Path) -> None:
    space = host(1)
    memory = Memory(space)
    memory.take(1, 7, 100, tf_op="lost")
    memory.used -= 100
    memory.take(2, 7, 100, tf_op="kept")
    profile = opened(tmp_path, space)
    ((log,), _) = build_memory_logs(profile.run)
    assert [log.op.text_at(i) for i in log.find_live(1)] == ["kept"]
    (row,) = profile.page("memory_profile").table("memories").records()
    assert (row["missing"], row["unfreed"]) == (1, 1)


def test_memories_are_told_apart_by_name_and_by_number(tmp_path: Path) -> None:
    space = host(1)
    for name in ("GPU_1_bfc", "GPU_0_bfc"):
        Memory(space, name).take(1, 7, 10)
    line = Memory(space).threads[0]
    for number in (0, 3):
        line.event("MemoryAllocation", 5, 0, index_on_host=number, bytes_allocated=1, addr=1)
    line.event("MemoryAllocation", 6, 0, bytes_allocated=1)
    logs, _ = build_memory_logs(opened(tmp_path, space).run)
    assert [log.memory for log in logs] == ["0", "3", "GPU_0_bfc", "GPU_1_bfc", "unnamed"]


def test_addresses_beyond_2_to_63_and_texts_in_place(tmp_path: Path) -> None:
    space = host(1)
    memory = Memory(space)
    for i, name in enumerate(("x", "y", "x")):
        memory.take(i, 2**63 + i, 8, tf_op=Inline(name), allocator_name=Inline("GPU_0_bfc"), addr=Unsigned(2**63 + i))
    log = only_log(tmp_path, space)
    assert len(set(log.address.tolist())) == 3
    assert log.op.texts().tolist() == ["x", "y", "x"]
    assert log.op.codes[0] == log.op.codes[2]


def test_events_of_no_step_count_to_the_step_to_come(tmp_path: Path) -> None:
    space = host(0)
    line = Memory(space).threads[0]
    for number in (0, 1):
        line.event("train", (number * 3 + 1) * MS, MS, step_num=number + 5, _r=1)
    memory = Memory(space)
    for time in (0.5, 1.5, 2.5, 4.5, 5.5):
        memory.take(int(time * MS), int(time * 10), 1)
    log = only_log(tmp_path, space)
    assert log.step.tolist() == [-1, 0, -1, 1, -1]
    assert log.xprof_step.tolist() == [0, 0, 1, 1, 2]


def test_events_without_sizes_are_left_out_and_counted(tmp_path: Path) -> None:
    space = host(1)
    memory = Memory(space)
    memory.take(1, 7, 10)
    memory.threads[0].event("MemoryDeallocation", 2, 0, addr=7)
    profile = opened(tmp_path, space)
    logs, lost = build_memory_logs(profile.run)
    assert ([len(log) for log in logs], lost) == ([1], 1)
    texts = [s.body for s in profile.page("memory_profile").sections if hasattr(s, "body")]
    assert any("1 memory events that do not say" in text for text in texts)


def test_values_of_the_wrong_kind_do_no_harm(tmp_path: Path) -> None:
    space = host(1)
    memory = Memory(space)
    memory.take(1, 7, 10, bytes_reserved=2**62, peak_bytes_in_use="many", data_type="float", requested_bytes=1.5, tf_op=3)
    log = only_log(tmp_path, space)
    assert log.stack[0] == 2**50
    assert log.lifetime_peak[0] == 0
    assert log.requested[0] == -1
    assert (log.op.text_at(0), log.data_type.text_at(0)) == ("3", "float")


def test_names_of_data_types() -> None:
    names = [data_type_name(n) for n in (0, 1, 3, 14, 19, 23, 30, 101, 119, 130)]
    assert names == ["", "float", "int32", "bfloat16", "half", "uint64", "uint4", "float_ref", "half_ref", "uint4_ref"]
    assert data_type_name(77) == "unknown dtype enum (77)"
    assert data_type_name(-1) == "unknown dtype enum (-1)"

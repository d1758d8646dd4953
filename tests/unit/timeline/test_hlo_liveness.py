"""When arrays are live, by the schedule."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from outpace.timeline.hlo.liveness import Liveness, PlacedArray, find_lives
from outpace.timeline.hlo.memory import BufferKind
from outpace.timeline.hlo.memory_changes import MemoryChangeKind, find_memory_changes
from tests.support import opened


class Spans(Liveness):
    """Lives as a test states them: (first place, last) by the array's number."""

    def __init__(self, spans: dict[int, tuple[int, int]]) -> None:
        self.spans = spans

    def place(self, instruction: Any) -> int:
        return self.spans[instruction][0]

    def last_use(self, instruction: Any, index: int) -> int:
        return self.spans[instruction][1]


def lives(*arrays: tuple[int, int, int, int]) -> dict[int, tuple[int, int]]:
    """(first place, place behind the last) by number, of (offset, size, first place, last)."""
    placed: list[Any] = [PlacedArray(at, at, 0, offset, size) for at, (offset, size, *_) in enumerate(arrays)]  # type: ignore[arg-type]
    spans = {at: (first, last) for at, (_, _, first, last) in enumerate(arrays)}
    return {array.number: (begin, end) for array, begin, end in find_lives(placed, Spans(spans))}


def test_an_array_lives_to_its_last_reader() -> None:
    assert lives((0, 8, 0, 3), (8, 8, 1, 2)) == {0: (0, 4), 1: (1, 3)}


def test_memory_that_is_handed_on_has_one_array_at_a_time() -> None:
    assert lives((0, 8, 0, 3), (0, 8, 3, 5)) == {0: (0, 3), 1: (3, 6)}
    assert lives((0, 8, 0, 9), (4, 8, 2, 5)) == {0: (0, 2), 1: (2, 6)}


def test_of_two_at_one_place_one_counts() -> None:
    assert lives((0, 8, 1, 2), (0, 8, 1, 4)) in ({1: (1, 5)}, {0: (1, 3)})


SPANS = st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(0, 10), st.integers(0, 10))


@given(st.lists(SPANS, max_size=30))
def test_no_byte_is_two_arrays_at_one_place(spans: list[tuple[int, int, int, int]]) -> None:
    arrays = [(offset, size, first, max(first, last)) for offset, size, first, last in spans]
    found = lives(*arrays)
    for place in range(12):
        held = [
            byte
            for at, (begin, end) in found.items() if begin <= place < end
            for byte in range(arrays[at][0], arrays[at][0] + arrays[at][1])
        ]  # fmt: skip
        assert len(held) == len(set(held))


def test_what_would_lower_the_peak_of_a_transformer() -> None:
    program = max(
        opened("jax_h100_sample_often").run.hosts[0].hlo_modules,
        key=lambda each: each.memory_plan.peak_bytes if each.memory_plan else 0,
    )
    plan = program.memory_plan
    assert plan is not None
    best, second = find_memory_changes(plan, program)
    assert (best.kind, best.source.rpartition("/")[2]) == (MemoryChangeKind.RECOMPUTATION, "sample_often.py:23")
    assert best.peak_bytes < 0.4 * plan.peak_bytes and best.flops > 1e12
    assert best.peak_bytes < second.peak_bytes < plan.peak_bytes
    kept = [each for each in plan.buffers if each.kind is BufferKind.TEMPORARY and each.end - each.begin > 4]
    assert best.arrays <= len(kept)


def test_no_change_makes_a_peak_larger() -> None:
    for name in ("jax_h100_fft_odd", "jax_h100_ok_vae", "jax_cpu_steps"):
        for program in opened(name).run.hosts[0].hlo_modules:
            if (plan := program.memory_plan) is not None:
                changes = find_memory_changes(plan, program)
                assert all(0 < each.peak_bytes <= 0.98 * plan.peak_bytes for each in changes)
                assert changes == sorted(changes, key=lambda each: each.peak_bytes)

"""The largest parts of a sum."""

from __future__ import annotations

from outpace.metrics.slices import REST_LABEL, top_slices


def test_the_ten_largest_and_the_rest() -> None:
    found = top_slices([f"part {i}" for i in range(13)], range(13))
    assert found == [*((f"part {i}", i) for i in range(12, 2, -1)), (REST_LABEL, 0 + 1 + 2)]


def test_nothing_left_over_and_nothing_at_all() -> None:
    assert top_slices(["a", "b", "b"], [1, 1, 1]) == [("b", 2), ("a", 1)]
    assert top_slices(["a"], [0]) == []
    assert top_slices([], []) == []

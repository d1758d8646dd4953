"""Slices of a pie."""

from __future__ import annotations

from outpace.metrics.slices import OTHERS, slices
from outpace.model import Field, Unit

FIELDS = (Field("label", Unit.TEXT, "what it is"), Field("size_ps", Unit.PS, "how much of it"))


def test_the_ten_largest_and_the_rest() -> None:
    table = slices({f"part {i}": i for i in range(13)}, "parts", "Parts", FIELDS)
    assert table is not None
    assert list(table.rows()) == [*((f"part {i}", i) for i in range(12, 2, -1)), (OTHERS, 0 + 1 + 2)]


def test_nothing_left_over_and_nothing_at_all() -> None:
    table = slices({"a": 1, "b": 1}, "parts", "Parts", FIELDS)
    assert table is not None
    assert list(table.rows()) == [("a", 1), ("b", 1)]
    assert slices({"a": 0}, "parts", "Parts", FIELDS) is None
    assert slices({}, "parts", "Parts", FIELDS) is None

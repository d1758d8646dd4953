"""What tables say of their columns holds in every profile: keys name rows, and what is additive can
be added up.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import pytest

from outpace.model import Field, Table, TableView, Unit
from outpace.tools import discover_tools
from tests.contract.inputs import INPUTS
from tests.contract.inputs import opened as opened_input
from tests.support import SOME, opened

TOOLS = [tool.id for tool in discover_tools()]
PLACES = {
    "explain.events",
    "memory_profile.step_ends",  # the numbers of steps begin anew in each epoch
    "memory_profile.timeline",
    "model_time.double_ops",
    "model_time.half_ops",
    "model_time.lone_ops",
    "model_time.model_work",
    "model_time.own_best",
}
"""Tables whose rows nothing but their place names."""
WHOLES = ("host", "device", "side", "memory")
"""Columns that tell apart what fractions are of."""
ROUNDING = 1e-6


def tables(source: str) -> Iterator[tuple[str, Table]]:
    """(reference, table) of every table of a profile."""
    profile = opened(source)
    for tool in TOOLS:
        for table in profile.page(tool).tables():
            yield f"{tool}.{table.name}", table


def total(values: list[float | None]) -> float:
    return math.fsum(value for value in values if value is not None)


def wholes(table: Table, spec: Field) -> dict[tuple[object, ...], float]:
    """Sum of a column by what its fractions are of."""
    apart = [name for name in WHOLES if name in table]
    sums: dict[tuple[object, ...], float] = defaultdict(float)
    for row in table.records():
        sums[tuple(row[name] for name in apart)] += row[spec.name] or 0.0
    return sums


def doubled(table: Table) -> list[tuple[object, ...]]:
    """Keys that two rows have."""
    seen: set[tuple[object, ...]] = set()
    keys = [tuple(row[name] for name in table.key) for row in table.records()]
    return [key for key in keys if key in seen or seen.add(key)]  # type: ignore[func-returns-value]


@pytest.mark.parametrize("source", SOME)
def test_keys_name_rows(source: str) -> None:
    for reference, table in tables(source):
        assert bool(table.key) != (reference in PLACES), reference
        assert not (table.key and doubled(table)), reference


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_keys_name_rows_of_odd_profiles(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    profile = opened_input(name, tmp_path_factory.mktemp("input"))
    found = [(tool, table) for tool in TOOLS for table in profile.page(tool).tables() if table.key]
    twice = [(tool, table.name, table.key) for tool, table in found if doubled(table)]
    assert not twice, "rows of equal key: mark more columns with * in the tool's schema"


@pytest.mark.parametrize("source", SOME)
def test_what_is_additive_adds_up(source: str) -> None:
    for reference, table in tables(source):
        for spec in table.fields:
            if spec.additive:
                assert not spec.key, f"{reference}.{spec.name}"
                assert spec.unit not in (Unit.TEXT, Unit.BOOL, Unit.NONE, Unit.BYTES_PER_S), f"{reference}.{spec.name}"
                assert math.isfinite(total([row[spec.name] for row in table.records()])), f"{reference}.{spec.name}"
            if spec.additive and spec.unit is Unit.FRACTION:
                assert max(wholes(table, spec).values(), default=0.0) <= 1 + ROUNDING, f"{reference}.{spec.name}"


@pytest.mark.parametrize("source", SOME)
def test_what_pages_sum_up_is_additive(source: str) -> None:
    summed = [s for tool in TOOLS for s in opened(source).page(tool).sections if isinstance(s, TableView) and s.by]
    assert all(section.table.field(name).additive for section in summed for name in section.sums)
    assert all(section.sums for section in summed)

"""A packed column gives what the array gives that it was made of, whatever rows are asked for."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from outpace.model.arrays import Indices, Numbers
from outpace.trace import columns, store_column

DRAW = np.random.default_rng(7)
COLUMNS = {
    "starts of a busy thread": np.cumsum(DRAW.integers(0, 90_000, 5_000)) * 1000,
    "starts in picoseconds, of two threads": np.concatenate([np.cumsum(DRAW.integers(0, 9_000, 700)) for _ in range(2)]),
    "durations, one of an hour": np.append(DRAW.integers(0, 60_000, 3_000) * 1000, 3_600 * 10**12),
    "extremes": np.array([-(2**63), 2**63 - 1, 0] * 400),
    "nothing": np.zeros(0, np.int64),
    "one": np.array([-(2**63)]),
    "all alike": np.full(1_000, -1, np.int32),
    "names": DRAW.integers(0, 300, 4_000).astype(np.int32),
    "steps": np.repeat(np.arange(-1, 400), 10).astype(np.int32),
    "any codes": DRAW.integers(-(2**31), 2**31 - 1, 1_000).astype(np.int32),
}


@pytest.fixture(autouse=True, params=[0, 10**9], ids=["packed", "plain"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to hold numbers."""
    monkeypatch.setattr(columns, "MIN_PACKED_ROWS", request.param)


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS.keys())
def test_it_gives_what_it_was_made_of(values: Numbers) -> None:
    column = store_column(values.copy())
    count = len(values)
    for part in (
        slice(None),
        slice(3, 700),
        slice(255, 257),
        slice(300, 5),
        slice(None, None, -7),
        slice(-9, None),
        slice(10**6),
    ):
        assert column[part].tolist() == values[part].tolist() and column[part].dtype == values.dtype
    rows = DRAW.integers(-count, count, 900) if count else np.zeros(0, np.int64)
    asked: list[Indices] = [
        rows,
        np.sort(rows).astype(np.int32),
        (rows % max(count, 1)).astype(np.int16),
        rows.reshape(-1, 3),
        rows[::2],
    ]
    for given in asked:
        assert np.array_equal(column[given], values[given]) and column[given].dtype == values.dtype
    for row in (0, count - 1, -1, -count) if count else ():
        assert column[row] == values[row] and column[int(row)].dtype == values.dtype


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS.keys())
def test_what_it_gives_changes_nothing(values: Numbers) -> None:
    before, column = values.tolist(), store_column(values.copy())
    for rows in (slice(None), np.arange(len(values))):
        given = column[rows]
        if given.flags.writeable:
            given += 5
    assert column[:].tolist() == before


@pytest.mark.parametrize("row", [5_000, -5_001, 2**40])
def test_a_row_that_there_is_not_fails(row: int) -> None:
    with pytest.raises(IndexError):
        store_column(COLUMNS["starts of a busy thread"].copy())[row]
    with pytest.raises(IndexError):
        store_column(COLUMNS["starts of a busy thread"].copy())[np.array([0, row])]


@pytest.mark.parametrize(
    ("name", "most"), [("starts of a busy thread", 4.1), ("all alike", 1.1), ("steps", 1.1), ("names", 2.1)]
)
def test_it_takes_few_bytes(name: str, most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MIN_PACKED_ROWS", 0)
    column: Any = store_column(COLUMNS[name])
    assert sum(part.nbytes for part in column._columns) / len(COLUMNS[name]) <= most


@pytest.mark.parametrize("name", ["starts of a busy thread", "steps", "extremes"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_it_is_searched_as_an_array_is(name: str, side: Literal["left", "right"]) -> None:
    values = np.sort(COLUMNS[name])
    wanted = np.concatenate([values[::3], values[::7] + 1, np.array([-(2**63), 2**63 - 1])]).astype(np.int64)
    for part in (slice(0, len(values)), slice(300, 900), slice(5, 5)):
        expected = np.searchsorted(values[part], wanted, side) + part.start
        assert store_column(values.copy()).searchsorted(part, wanted, side).tolist() == expected.tolist()

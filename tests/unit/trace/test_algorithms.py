"""Set algebra on sorted columns, and what is computed block by block or row by row, against NumPy's
own.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpace.trace import StatColumn, algorithms
from outpace.trace.formats.xspace.reader import read_trace
from tests.support import profile_bytes

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3))


@given(NUMBERS)
def test_distinct_is_unique(values: list[int]) -> None:
    column = np.array(values, np.int64)
    assert algorithms.distinct(column).tolist() == np.unique(column).tolist()
    unsigned = column.view(np.uint64)
    assert algorithms.distinct(unsigned).tolist() == np.unique(unsigned).tolist()


@given(NUMBERS, NUMBERS)
def test_isin_is_numpys(values: list[int], chosen: list[int]) -> None:
    column = np.array(values, np.int64)
    assert algorithms.isin(column, chosen).tolist() == np.isin(column, np.array(chosen, np.int64)).tolist()
    unsigned = column.view(np.uint64)
    others = np.array(chosen, np.int64).view(np.uint64)
    assert algorithms.isin(unsigned, others).tolist() == np.isin(unsigned, others).tolist()


@given(NUMBERS, NUMBERS)
def test_common_finds_every_value_that_both_hold(first: list[int], second: list[int]) -> None:
    ours, theirs = np.sort(np.array(first, np.int64)), np.unique(np.array(second, np.int64))
    at_first, at_second = algorithms.intersect_indices(ours, theirs)
    assert ours[at_first].tolist() == theirs[at_second].tolist()
    assert len(at_first) == sum(value in set(second) for value in first)


@given(st.lists(st.integers(0, 4), max_size=9), st.sampled_from([np.bool_, np.uint8, np.int64]))
def test_codes_are_looked_up_whatever_the_blocks(code: list[int], kind: type[np.generic]) -> None:
    values, asked = np.array([0, 1, 0, 3, 1], kind), np.array(code, np.int32)
    whole = algorithms._BLOCK
    try:
        for algorithms._BLOCK in (1, 2, whole):
            found = algorithms.take_codes(values, asked)
            assert found.tolist() == values[asked].tolist() and found.dtype == values.dtype
    finally:
        algorithms._BLOCK = whole


def test_ends_and_lines_of_rows_are_those_of_whole_columns() -> None:
    trace = read_trace(profile_bytes("tpu_v6e_inference", "tpu"))
    first, rows = trace.lines.first_event, np.arange(len(trace))
    assert (np.diff(first) == 0).any(), "a line without an event is looked past"
    assert trace.line[rows].tolist() == np.repeat(np.arange(len(trace.lines)), np.diff(first)).tolist()
    assert trace.end[rows[::-7]].tolist() == (trace.start[:] + trace.duration[:])[::-7].tolist()
    assert trace.line[int(first[-1]) - 1] == trace.line[rows][-1]


@given(st.dictionaries(st.integers(0, 9), st.integers(-5, 5)), st.lists(st.integers(0, 9)))
def test_a_stat_answers_for_the_rows_that_carry_it(values: dict[int, int], rows: list[int]) -> None:
    carried = dict(sorted(values.items()))
    column = StatColumn.from_values("some", list(carried), list(carried.values()))
    assert column.take_ints(np.array(rows, np.int64), 7).tolist() == [values.get(row, 7) for row in rows]


@pytest.mark.parametrize("block", [1, 2, 1 << 16])
def test_places_among_rows(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that stands there twice, as of an event with the same stat twice, is found where it
    stands last.
    """
    monkeypatch.setattr(algorithms, "_BLOCK", block)
    among, rows = np.array([2, 5, 5, 9], np.int32), np.array([9, -1, 5, 3, 2, 100, 0])
    assert algorithms.find_positions(among, rows).tolist() == [3, -1, 2, -1, 0, -1, -1]
    assert algorithms.find_positions(among[:0], rows).tolist() == [-1] * 7
    assert algorithms.find_positions(among, rows[:0]).tolist() == []


def test_rows_of_any() -> None:
    assert algorithms.union_rows(np.array([7, 2]), np.array([2, 9]), np.zeros(0, np.int64)).tolist() == [2, 7, 9]
    assert algorithms.union_rows(np.array([2, 7])).tolist() == [2, 7] and algorithms.union_rows().tolist() == []


def test_rows_among_a_part_of_all() -> None:
    rows = np.array([2, 5, 7, 9])
    assert rows[algorithms.find_slice(rows, slice(5, 9))].tolist() == [5, 7]
    assert (
        rows[algorithms.find_slice(rows, slice(3, 4))].tolist()
        == []
        == rows[:0][algorithms.find_slice(rows[:0], slice(0, 9))].tolist()
    )

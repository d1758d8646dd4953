"""Set algebra on sorted columns, against NumPy's own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from outpace.trace import algorithms

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3))


@given(NUMBERS)
def test_distinct_is_unique(values: list[int]) -> None:
    column = np.array(values, np.int64)
    assert algorithms.distinct(column).tolist() == np.unique(column).tolist()
    unsigned = column.view(np.uint64)
    assert algorithms.distinct(unsigned).tolist() == np.unique(unsigned).tolist()


@given(NUMBERS, NUMBERS)
def test_common_finds_every_value_that_both_hold(first: list[int], second: list[int]) -> None:
    ours, theirs = np.sort(np.array(first, np.int64)), np.unique(np.array(second, np.int64))
    at_first, at_second = algorithms.common(ours, theirs)
    assert ours[at_first].tolist() == theirs[at_second].tolist()
    assert len(at_first) == sum(value in set(second) for value in first)

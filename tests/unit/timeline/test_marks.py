"""Marks of steps: calls that found no data are none."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.timeline.marks import _begun_again


@pytest.mark.parametrize(
    ("numbers", "lengths", "empty"),
    [
        (
            [29, 30, 31, 31, 32],
            [30, 31, 6, 91, 30],
            [2],
        ),  # an epoch's end: Keras begins batch 31, finds no data, and begins it again
        ([29, 30, 31, 31, 32], [30, 31, 29, 30, 30], []),  # two steps that a program numbers alike
        ([0, 0, 1, 1, 2, 2], [10, 12, 11, 12, 10, 12], []),  # two parts of each step
        ([5, 6, 7, 5, 6, 7], [10, 1, 10, 10, 10, 10], []),  # batches of two epochs
        ([4], [10], []),
    ],
)
def test_a_batch_that_is_begun_again_was_none_before(numbers: list[int], lengths: list[int], empty: list[int]) -> None:
    assert np.flatnonzero(_begun_again(np.array(numbers), np.array(lengths))).tolist() == empty

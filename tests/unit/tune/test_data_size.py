"""Sizes of caches, without TensorFlow."""

from __future__ import annotations

import pytest

from outpace.model.errors import RebuildError
from outpace.tune.data import size
from outpace.tune.data.size import COUNTED, CacheSize


def test_the_total_is_elements_times_bytes() -> None:
    assert CacheSize(elements=1000, element_bytes=2.5).total == 2500


@pytest.mark.parametrize(("elements", "seconds"), [(COUNTED + 5, 0.0), (60, 0.1)])
def test_counting_stops_at_a_number_and_at_a_time(elements: int, seconds: float) -> None:
    ticks = (seconds * tick for tick in range(elements + 2))
    with pytest.raises(RebuildError, match=r"counting stopped after [\d,]+\). tf.data.experimental.assert_cardinality"):
        size._counted(range(elements), lambda: next(ticks))

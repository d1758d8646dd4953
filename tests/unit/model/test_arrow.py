"""Tables as Arrow: the type of a column is that of its unit, whatever it was computed in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from outpace.model import Field, Table, Unit

LATER = 2**63


def arrow(values: Any, unit: Unit, *, additive: bool = False) -> Any:
    """A column of one table, as a reader of Arrow gets it."""
    return pa.table(Table.build("t", "T", (Field("x", unit, "what it is", additive=additive),), {"x": values}))


@pytest.mark.parametrize(
    ("values", "unit", "kind", "read"),
    [
        ([3, 4], Unit.PS, pa.int64(), [3, 4]),
        (np.array([3, 4], np.int32), Unit.COUNT, pa.int64(), [3, 4]),
        ([1.6, np.nan, np.inf], Unit.PS, pa.int64(), [2, None, None]),
        ([1.0, np.nan], Unit.COUNT, pa.int64(), [1, None]),
        ([1.5, np.nan], Unit.COUNT, pa.float64(), [1.5, None]),
        ([-0.5], Unit.BYTES, pa.float64(), [-0.5]),
        ([float(LATER)], Unit.PS, pa.float64(), [float(LATER)]),
        (np.array([LATER], np.uint64), Unit.COUNT, pa.float64(), [float(LATER)]),
        (np.array([None, 7], object), Unit.COUNT, pa.int64(), [None, 7]),
        ([1, 0], Unit.FRACTION, pa.float64(), [1.0, 0.0]),
        ([True, False], Unit.BOOL, pa.bool_(), [True, False]),
        (["a", None], Unit.TEXT, pa.string(), ["a", None]),
        (["a\ud800"], Unit.TEXT, pa.string(), ["a\ufffd"]),
        (np.array([], np.int64), Unit.PS, pa.int64(), []),
        ([], Unit.PS, pa.int64(), []),
        ([], Unit.TEXT, pa.string(), []),
        ([], Unit.RATIO, pa.float64(), []),
    ],
)
def test_the_unit_is_the_type(values: Any, unit: Unit, kind: Any, read: list[Any]) -> None:
    column = arrow(values, unit).column("x")
    assert column.type == kind
    assert column.to_pylist() == read


def test_what_is_said_of_a_column_travels() -> None:
    spec = arrow([1], Unit.PS, additive=True).schema.field("x")
    assert spec.metadata == {b"unit": b"ps", b"meaning": b"what it is", b"key": b"false", b"additive": b"true"}

"""`Table` as an Arrow stream, through `nanoarrow` (imported only when somebody asks for Arrow)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from outpace.model.arrays import Column
    from outpace.model.table import Table


def stream_of(table: Table, requested_schema: object | None) -> object:
    """Return the Arrow C stream capsule of `table`; units and meanings travel as field metadata."""
    import nanoarrow as na

    children = [_array(column) for column in table.columns]
    fields = {
        spec.name: na.Schema(child.schema, nullable=True, metadata={"unit": spec.unit.value, "meaning": spec.meaning})
        for spec, child in zip(table.fields, children, strict=True)
    }
    batch = na.c_array_from_buffers(
        na.struct(fields), length=len(table), buffers=[None], children=children, move=False, validation_level="none"
    )
    return na.ArrayStream(na.Array(batch)).__arrow_c_stream__(requested_schema)


def _array(column: Column) -> Any:
    import nanoarrow as na

    if column.dtype.kind == "O":
        return na.Array([None if v is None else str(v) for v in column.tolist()], na.string())
    if column.dtype.kind == "b":
        return na.Array(column.tolist(), na.bool_())
    if column.dtype.kind == "f":
        return na.Array([None if v != v else v for v in column.tolist()], na.float64())
    return na.Array(np.ascontiguousarray(column))

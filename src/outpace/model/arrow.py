# SPDX-License-Identifier: Apache-2.0
"""`Table` as an Arrow stream, through `nanoarrow` (imported only when Arrow is requested)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from outpace.model.text import repair_unicode
from outpace.model.units import Unit

if TYPE_CHECKING:
    from outpace.model.arrays import Column
    from outpace.model.table import Field, Table

_WHOLE = (Unit.PS, Unit.COUNT, Unit.BYTES)


def build_arrow_stream(table: Table, requested_schema: object | None) -> object:
    """Return the Arrow C stream capsule of `table`. The unit, meaning and flags of every column are
    field metadata.
    """
    import nanoarrow as na

    children = [_array(column, spec.unit) for spec, column in zip(table.fields, table.columns, strict=True)]
    fields = {
        repair_unicode(spec.name): na.Schema(child.schema, nullable=True, metadata=_field_metadata(spec))
        for spec, child in zip(table.fields, children, strict=True)
    }
    batch = na.c_array_from_buffers(
        na.struct(fields), length=len(table), buffers=[None], children=children, move=False, validation_level="none"
    )
    return na.ArrayStream(na.Array(batch)).__arrow_c_stream__(requested_schema)


def _field_metadata(spec: Field) -> dict[str, str]:
    flags = {name: str(getattr(spec, name)).lower() for name in ("key", "additive")}
    return {"unit": spec.unit.value, "meaning": repair_unicode(spec.meaning), **flags}


def _array(column: Column, unit: Unit) -> Any:
    """Return a column as an Arrow array whose type depends on its unit alone, so that tables of
    several runs can be concatenated.

    Picoseconds, counts and bytes become int64 (float64 where counts or bytes are fractions, or
    where 64 bits cannot represent them); other columns become float64, booleans or texts. Missing
    and infinite values become null.
    """
    import nanoarrow as na

    if column.dtype.kind == "i" and unit in _WHOLE and len(column):  # nanoarrow accepts no empty array
        return na.Array(np.ascontiguousarray(column, np.int64))
    values = column.tolist()
    if unit is Unit.TEXT or (unit is Unit.NONE and column.dtype.kind in "OU"):
        return na.Array([None if v is None else repair_unicode(str(v)) for v in values], na.string())
    if unit is Unit.BOOL:
        return na.Array(values, na.bool_())
    numbers = [v if v is not None and math.isfinite(v) else None for v in values]
    if unit in _WHOLE:
        whole = [None if v is None else round(v) for v in numbers]
        if (unit is Unit.PS or whole == numbers) and all(-(2**63) <= v < 2**63 for v in whole if v is not None):
            return na.Array(whole, na.int64())
    return na.Array([None if v is None else float(v) for v in numbers], na.float64())

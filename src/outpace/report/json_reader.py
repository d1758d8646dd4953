# SPDX-License-Identifier: Apache-2.0
"""Reader of stored reports: the output of `report --json` is shown, rendered and exported again,
without the profile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_type_hints

import numpy as np

from outpace._lazy import compile_lazily
from outpace.model import (
    AreaColumns,
    Chart,
    ChartKind,
    Field,
    IcicleColumns,
    Page,
    ProfileError,
    Report,
    Saving,
    ScatterColumns,
    Section,
    Table,
    TableView,
    Unit,
)
from outpace.model.codec import decode
from outpace.model.files import read_json
from outpace.model.input_files import PROFILE, REPORT, open_file
from outpace.report.json_ import SCHEMA, SECTIONS

_HEAD = 64
_NUMBERS: set[type] = {int, float, NoneType}
_KINDS: dict[Unit, set[type]] = {
    **dict.fromkeys(Unit, _NUMBERS),
    Unit.NONE: {*_NUMBERS, str, bool},
    Unit.TEXT: {str, NoneType},
    Unit.BOOL: {bool, NoneType},
}
"""Types that a cell may have, by the unit of its column."""

_BEGINNING = compile_lazily(rb'\s*\{\s*"schema"\s*:')  # also as `jq` formats it


def is_report_file(path: str) -> bool:
    """Whether a local file begins as a stored report does. Other files, including JSON traces of
    other profilers, are handled by the code that opens profiles.
    """
    try:
        # the size is not limited here; the reader reports a file that is too large
        with open_file(path, PROFILE) as file:
            return _BEGINNING.match(file.read(_HEAD)) is not None
    except OSError:
        return False


def read_report(path: Path) -> Report:
    """Return the report in the file at `path`. Raises NotFoundError where there is no file,
    ProfileError where it is no report of this schema.
    """
    document = read_json(path, REPORT)
    if not isinstance(document, dict) or not {"schema", "tools"} <= document.keys():
        raise ProfileError(f"{path} is no report of Outpace. Make one with: outpace report PROFILE --json > report.json")
    if document["schema"] != SCHEMA:
        raise ProfileError(
            f"{path} has schema {document['schema']}, and this version of Outpace reads {SCHEMA}. "
            "Make it again from the profile, or use the version that wrote it."
        )
    try:
        return decode_report(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProfileError(f"{path} is damaged: {type(error).__name__}: {error}. Make it again from the profile.") from error


def decode_report(document: Mapping[str, Any]) -> Report:
    """Return the report that `json_.encode_report` encoded; missing numbers stay missing."""
    pages = [_page(tool, page) for tool, page in document["tools"].items()]
    return cast(Report, _value(Report, {**document, "pages": pages}))


def _page(tool: str, page: Mapping[str, Any]) -> Page:
    tables = {name: _table(name, table) for name, table in page["tables"].items()}
    glance = None if page["glance"] is None else _section(Chart, page["glance"], tables)
    sections = tuple(_section(SECTIONS[section["section"]], section, tables) for section in page["sections"])
    drawn = {picture.table.name for picture in (glance, *sections) if hasattr(picture, "table")}
    hidden = [name for name in tables if name not in drawn]
    fields = {**page, "id": tool, "glance": glance, "sections": sections, "hidden_tables": hidden}
    return cast(Page, _value(Page, fields, tables, {Section: lambda section: section}))


def _section(kind: type, section: Any, tables: Mapping[str, Table]) -> Any:
    """Return a section after checking that its columns exist, and are numbers
    where they are drawn.
    """
    value = _value(kind, section, tables)
    if isinstance(value, TableView):
        named, drawn = (*value.columns, *value.pick, *value.by, *value.sums, *filter(None, (value.aside,))), value.sums
    elif isinstance(value, Chart):
        more = filter(None, (value.state, value.aside))
        named, drawn = (value.x, *value.series, *value.choice_columns(), *more), _drawn_columns(value)
    else:
        return value
    units = {name: value.table.field(name).unit for name in named}
    if any(units[name] in (Unit.TEXT, Unit.BOOL) for name in drawn):
        raise ValueError(f"table {value.table.name} has texts for numbers")
    return value


_LEAST_COLUMNS = {ChartKind.GRAPH: 3, ChartKind.ICICLE: 3, ChartKind.AREA: 3, ChartKind.SCATTER: 4}


def _drawn_columns(chart: Chart) -> tuple[str, ...]:
    """Return the names of the columns whose numbers a chart draws. Raises ValueError if the chart
    names fewer columns than its kind reads.
    """
    if len(chart.series) < _LEAST_COLUMNS.get(chart.kind, 1):
        raise ValueError(f"chart {chart.title} has too few columns")
    if chart.kind is ChartKind.GRAPH:
        return ()
    if chart.kind is ChartKind.AREA:
        return AreaColumns.of(chart).parts
    if chart.kind is ChartKind.ICICLE:
        columns = IcicleColumns.of(chart)
        return (columns.size, *columns.shown)
    return ScatterColumns.of(chart).drawn if chart.kind is ChartKind.SCATTER else chart.series


def _table(name: str, table: Mapping[str, Any]) -> Table:
    fields = _value(tuple[Field, ...], [{**column, "title": column["label"]} for column in table["columns"]])
    if len({field.name for field in fields}) < len(fields):
        raise ValueError(f"table {name} has two columns of one name")
    columns = zip(*table["rows"], strict=True) if table["rows"] else ((),) * len(fields)
    column_values = [_column(field, values) for field, values in zip(fields, columns, strict=True)]
    return Table(name, _value(str, table["title"]), fields, tuple(column_values))


def _column(field: Field, values: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """Return a column in the type that it was written with: integers stay integers, missing values
    are NaN among floats and None elsewhere.
    """
    kinds = {type(value) for value in values}
    if not kinds <= _KINDS[field.unit]:
        raise ValueError(f"column {field.name} holds what is no {field.unit.value or 'cell'}")
    if kinds == {bool} or (kinds == {int} and all(value < 2**63 for value in values)):
        return np.array(values)
    if float in kinds and kinds <= {float, NoneType}:
        return np.array([np.nan if value is None else value for value in values])
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _value(kind: Any, value: Any, tables: Mapping[str, Table] | None = None, more: Mapping[Any, Any] | None = None) -> Any:
    return decode(kind, value, {Table: (tables or {}).__getitem__, Saving: _saving, float: _number, **(more or {})})


def _number(value: Any) -> float:
    """Return a number; NaN where it was missing because JSON has no value for it."""
    return math.nan if value is None else decode(float, value)


def _saving(value: Any) -> Saving:
    kind = value["kind"]
    fields = {**value, "step": value["step_ps"] or 0.0, "at_roof": kind == "roof", "at_least": kind == "floor"}
    return Saving(**{name: decode(kind, fields[name]) for name, kind in get_type_hints(Saving).items() if name in fields})

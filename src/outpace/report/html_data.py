# SPDX-License-Identifier: Apache-2.0
"""Tables and charts as JSON inside an HTML page, escaped so that no name can end the script
element.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from outpace.model import AreaColumns, Chart, ChartKind, Table, Unit
from outpace.model.text import clean
from outpace.report.chart_data import find_states, series_key
from outpace.report.labels import common_prefix_length

MAX_ROWS = 20_000
"""Maximum rows of one table in an HTML report; the page mentions the limit, and CSV and JSON
contain all rows.
"""

FIRST_ROWS = 2_000
"""Rows of a table that a server sends with a view; the others follow in pages of `MAX_ROWS`, up to
`MAX_SERVED_ROWS` rows.
"""

MAX_SERVED_ROWS = 200_000

CHART_ASSETS = {
    ChartKind.STACK_SERIES: ("columns_input.js", "columns.js", "step.js"),
    ChartKind.PIE: ("pictures.js", "pictures.css", "bars.js"),
    ChartKind.ICICLE: ("pictures.js", "pictures.css", "flame_tree.js", "flame.js", "flame.css"),
    ChartKind.GRAPH: ("pictures.js", "pictures.css", "graph.js", "graph.css"),
    ChartKind.AREA: ("pictures.js", "pictures.css", "axis.js", "area.js", "area.css"),
}
"""Scripts and styles of the kinds of chart that a script draws from the chart's description and
table.
"""

_EXACT = 2**53 - 1  # largest integer that a JavaScript number represents exactly


def chart_assets(chart: Chart) -> tuple[str, ...]:
    """Return the scripts and styles that draw a chart; empty where the static
    picture is complete.
    """
    return CHART_ASSETS.get(chart.kind, ()) if chart.kind is not ChartKind.PIE or chart.choice_columns() else ()


def embed_json(value: object) -> Markup:
    """Return `value` as JSON that is safe inside `<script type="application/json">`."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def table_data(table: Table, rows_url: str = "") -> dict[str, Any]:
    """Return a table by columns, stored as `column_data` does; names are cleaned, and at most
    `MAX_ROWS` rows included. `rows_url`: URL of the remaining rows of a large table, by the
    number of the first one.
    """
    served = bool(rows_url) and len(table) > FIRST_ROWS
    return {
        "name": table.name,
        "columns": [
            {"name": f.name, "label": clean(f.label), "unit": f.unit.value, "meaning": clean(f.meaning)} for f in table.fields
        ],
        "data": rows_data(table, 0, FIRST_ROWS if served else MAX_ROWS),
        **({"more": rows_url, "total": min(len(table), MAX_SERVED_ROWS)} if served else {}),
    }


def rows_data(table: Table, offset: int, count: int) -> list[Any]:
    """Return some rows, by column as `table_data` stores them."""
    part = table.take(slice(offset, offset + count))
    return [column_data([_cell(v) for v in part[f.name].tolist()]) for f in table.fields]


def column_data(values: list[Any]) -> list[Any] | dict[str, list[Any]]:
    """Return a column in its embedded form, which `Tables.column` in `assets/tables.js` reads.

    The form is a list of the values or, where that is shorter, a dictionary: `at` has the index of
    each row's value, and the distinct values are in `of` or, if all are texts, in `texts`: sorted,
    each as the number of characters that it shares with its predecessor, and its remaining
    characters. Missing texts have the index -1.
    """
    if values and all(v is None or isinstance(v, str) for v in values):
        order = sorted({v for v in values if v is not None})
        number = {text: i for i, text in enumerate(order)}
        at, coded = [number.get(v, -1) for v in values], {"texts": _front_code(order)}
    else:  # 1, 1.0 and True are equal, but are three values in JSON
        different = {repr(v): v for v in values}
        number = {spelled: i for i, spelled in enumerate(different)}
        at, coded = [number[repr(v)] for v in values], {"of": list(different.values())}
    return {**coded, "at": at} if sum(map(_room, coded.values())) + _room(at) < _room(values) else values


def _front_code(texts: Sequence[str]) -> list[int | str]:
    """Return sorted texts in front coding: for each the length of the shared prefix and the rest.
    Lengths count JavaScript characters, which are UTF-16 code units.
    """
    stored: list[int | str] = []
    for before, text in zip(("", *texts), texts, strict=False):
        same = common_prefix_length(before, text)
        stored += (len(text[:same].encode("utf-16-le")) // 2, text[same:])
    return stored


def _room(values: Sequence[Any]) -> int:
    """Return the approximate number of characters of values in JSON."""
    return sum(len(v) + 3 if isinstance(v, str) else len(repr(v)) + 1 for v in values)


def stacked_chart_data(chart: Chart, table_id: str) -> dict[str, Any]:
    """Return a STACK_SERIES chart, with a reference to its embedded table."""
    fields = [chart.table.field(n) for n in chart.series]
    x = chart.table.field(chart.x)
    return {
        "table": table_id,
        "title": clean(chart.title),
        "x": chart.x,
        "xLabel": clean(x.label),
        "named": x.unit in (Unit.TEXT, Unit.COUNT),
        "select": chart.select,
        "selectLabel": clean(chart.table.field(chart.select).label) if chart.select else "",
        "series": [f.name for f in fields],
        "names": [clean(f.label) for f in fields],
        "keys": [series_key(chart, f, i) for i, f in enumerate(fields)],
        "unit": fields[0].unit.value if fields else Unit.NONE.value,
    }


def interactive_chart_data(chart: Chart, chart_id: str, table_id: str) -> dict[str, Any]:
    """Return a chart that has `chart_assets`, with a reference to its embedded table."""
    columns = {"x": chart.x, "series": chart.series, "choices": chart.choice_columns()}
    parts = [chart.table.field(name) for name in AreaColumns.of(chart).parts] if chart.kind is ChartKind.AREA else []
    keys = [series_key(chart, field, i) for i, field in enumerate(parts)]
    return {
        "id": chart_id,
        "table": table_id,
        "title": clean(chart.title),
        **columns,
        "keys": keys,
        "detail": clean(chart.detail),
        "state": chart.state,
        "colors": {word: key for key, word in find_states(chart)},
        "aside": chart.aside,
    }


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else str(value)
    return clean(value)

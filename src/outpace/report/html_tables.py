# SPDX-License-Identifier: Apache-2.0
"""Tables for the HTML templates: which column names the rows, which columns are hidden, and the
first rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from outpace.model import Chart, Field, Table, TableView, Unit
from outpace.model.arrays import Column
from outpace.model.text import clean, elide, format_cell, shorten
from outpace.report import html_data, json_
from outpace.report.html_anchors import slug

STATIC_ROWS = 25
"""Rows of a table in the static page: for print, for notebooks, and until the script has run."""

_SHORT_NAME = 72
_SHORT_VALUE = 40
_PER_NAME = 8  # maximum average number of rows with one name for a column to name the rows
_CHOICES = ("pick", "by", "sums")


def build_table_view(section: TableView | Chart, *, raw: bool, row_limit: int = html_data.MAX_ROWS) -> dict[str, Any]:
    """Return everything that a table shows at first. `raw` adds unformatted numbers, for a
    fragment, which has no other data to sort by. `row_limit`: number of rows available for
    sorting and filtering.
    """
    table = section.table
    first = section.columns if isinstance(section, TableView) else ()
    aside = section.aside
    sums = section.sums if isinstance(section, TableView) else ()
    fields = _order_columns(table, first)
    hidden, same = _find_silent_columns(table, fields[1:], frozenset((*first, *sums)), aside)
    visible = [f for f in fields if f.name not in hidden]
    top = (table.take(~table[aside].astype(bool)) if aside else table).take(slice(0, STATIC_ROWS))
    columns = [_cells(top, f, raw=raw) for f in visible]
    return {
        "title": clean(table.title),
        "heads": [{"label": clean(f.label), "meaning": clean(f.meaning), "right": is_numeric_unit(f.unit)} for f in visible],
        "rows": list(zip(*columns, strict=True)),
        "total": len(table),
        "total_text": f"{len(table):,}",
        "left_out": f"{len(table) - len(top):,}" if len(table) > len(top) else "",
        "not_carried": f"{row_limit:,}" if len(table) > row_limit else "",
        "file": slug(table.name),
        "order": " ".join(f.name for f in fields),
        "hidden": " ".join(hidden),
        "same": same,
        "aside": clean(table.field(aside).label) if aside else "",
        "aside_column": aside,
        **{name: " ".join(table.field(c).name for c in getattr(section, name, ())) for name in _CHOICES},
    }


def is_numeric_unit(unit: Unit) -> bool:
    """Whether a column of this unit is aligned to the right."""
    return unit not in (Unit.TEXT, Unit.BOOL)


def _order_columns(table: Table, first: Sequence[str]) -> list[Field]:
    """Return the columns in display order: the one that names the rows, which stays visible while
    scrolling; those worth showing first; all others.
    """
    order = [table.field(n) for n in first] + [f for f in table.fields if f.name not in first]
    candidates = [f for f in order[: len(first) or None] if f.unit is Unit.TEXT]
    differ = {f.name: len(set(table[f.name].tolist())) for f in candidates}
    most = max(differ.values(), default=0)
    few = most <= len(table) / _PER_NAME
    naming = order[0] if few else next(f for f in candidates if differ[f.name] > most / 2)
    return [naming, *(f for f in order if f is not naming)]


def _find_silent_columns(
    table: Table, fields: Sequence[Field], chosen: frozenset[str], aside: str
) -> tuple[list[str], list[str]]:
    """Return the columns that are hidden at first because they contain no information, and texts
    for those with the same value in every row.

    Hidden are empty columns, columns that number the rows, and columns of one value; a number that
    is `chosen` is shown, unless it is zero.
    """
    hidden, same = ([aside] if aside else []), []
    for field in fields:
        column, number = table[field.name], is_numeric_unit(field.unit)
        empty, several = _is_empty(column), len(table) > 1
        if empty or (several and number and _numbers_the_rows(column)):
            hidden.append(field.name)
        elif several and bool((column == column[0]).all()) and not (number and field.name in chosen and column[0]):
            hidden.append(field.name)
            if column[0] or not number:
                same.append(f"{clean(field.label)} {shorten(format_cell(column[0], field.unit), _SHORT_VALUE)}")
    return list(dict.fromkeys(hidden)), same


def _is_empty(column: Column) -> bool:
    if column.dtype.kind == "f":
        return bool(np.isnan(column).all())
    return column.dtype.kind == "O" and all(value is None or value == "" for value in column.tolist())


def _numbers_the_rows(column: Column) -> bool:
    return column.dtype.kind in "iu" and bool((column == np.arange(1, len(column) + 1)).all())


def _cells(table: Table, field: Field, *, raw: bool) -> list[dict[str, Any]]:
    values = table[field.name].tolist()
    texts = [format_cell(value, field.unit) for value in values]
    right = is_numeric_unit(field.unit)
    short = texts if right else elide(texts, _SHORT_NAME)
    return [
        {
            "text": s,
            "full": text if s != text else "",
            "right": right,
            "raw": json_.encode_cell(value) if raw and right else None,
        }
        for s, text, value in zip(short, texts, values, strict=True)
    ]

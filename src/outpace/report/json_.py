"""The report as JSON for other programs, and for another day: `stored` makes the report from it again.

`docs/json-schema.md` describes every field, `docs/report.schema.json` states them for validators. Strict JSON: NaN and infinities are
null, names are valid Unicode and whole. Within one schema number fields are only added.
"""

from __future__ import annotations

import json
import math
from typing import Any

from outpace.model import Chart, Figures, Links, Page, Report, Rows, Saving, Table, Text
from outpace.model.codec import encode
from outpace.model.text import valid

SCHEMA = 2
SECTIONS: dict[str, type] = {"figures": Figures, "links": Links, "text": Text, "chart": Chart, "rows": Rows}
"""The kinds of sections by what `section` says of them."""

_KIND_OF = {kind: name for name, kind in SECTIONS.items()}


def render(report: Report, *, ascii_only: bool = False) -> str:
    """Return the report as one JSON object on one line; `ascii_only` for an output that has no other characters."""
    return json.dumps(document(report), ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))


def document(report: Report) -> dict[str, Any]:
    """Return the report as plain dictionaries, lists, strings, finite numbers, booleans and None."""
    return {
        "schema": SCHEMA,
        "source": valid(report.source),
        "headline": valid(report.headline),
        "warnings": _value(report.warnings),
        "findings": _value(report.findings),
        "struck": _value(report.struck),
        "next": _value(report.next),
        "tools": {valid(page.id): _page(page) for page in report.pages},
    }


def _page(page: Page) -> dict[str, Any]:
    return {
        "title": valid(page.title),
        "question": valid(page.question),
        "headline": valid(page.headline),
        "evidence": _value(page.evidence),
        "glance": _value(page.glance),
        "key_figures": _value(page.key_figures),
        "sections": [{"section": _KIND_OF[type(s)], **_value(s)} for s in page.sections],
        "tables": {valid(table.name): _table(table) for table in page.tables()},
        "findings": _value(page.findings),
        "unavailable": _value(page.unavailable),
        "failure": _value(page.failure),
    }


def columns(table: Table) -> list[dict[str, Any]]:
    """What is said of a table's columns."""
    return [
        {
            "name": valid(f.name),
            "unit": f.unit.value,
            "label": valid(f.label),
            "meaning": valid(f.meaning),
            "key": f.key,
            "additive": f.additive,
        }
        for f in table.fields
    ]


def _table(table: Table) -> dict[str, Any]:
    values = [[plain(v) for v in column.tolist()] for column in table.columns]
    return {"title": valid(table.title), "columns": columns(table), "rows": [list(row) for row in zip(*values, strict=True)]}


def _value(value: Any) -> Any:
    """Records by the names of their fields; a table is named, and stands among the tables of its page."""
    return encode(value, plain, {Table: lambda table: valid(table.name), Saving: _saving})


def _saving(saving: Saving) -> dict[str, Any]:
    """A saving with its kind in a word, and in time as well as in shares of the step."""
    return {
        "kind": "prediction" if saving.predicted else "bound",
        "low": plain(saving.low),
        "high": plain(saving.high),
        "low_ps": plain(saving.low * saving.step) if saving.step else None,
        "high_ps": plain(saving.high * saving.step) if saving.step else None,
        "step_ps": plain(saving.step) if saving.step else None,
        "base": valid(saving.base),
        "takes_from": [valid(key) for key in saving.takes_from],
        "assumes": valid(saving.assumes),
    }


def plain(value: Any) -> Any:
    """Return a cell as a JSON value: NumPy scalars become plain, NaN and infinities None, anything unknown its text."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return valid(str(value))

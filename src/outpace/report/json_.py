# SPDX-License-Identifier: Apache-2.0
"""Report as JSON for other programs and for storage; `json_reader` decodes it again.

`docs/json-schema.md` describes every field, `docs/report.schema.json` defines them for validators.
The output is strict JSON: NaN and infinities are null, names are valid Unicode and complete. Within
one schema number, fields are only added.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from outpace.model import Chart, Figures, Finding, Links, Page, Paragraph, Report, Saving, Table, TableView
from outpace.model.codec import Converters, encode
from outpace.model.text import repair_unicode

SCHEMA = 2
SECTIONS: dict[str, type] = {"figures": Figures, "links": Links, "text": Paragraph, "chart": Chart, "rows": TableView}
"""Section types by the value of `section` in JSON."""

_KIND_OF = {kind: name for name, kind in SECTIONS.items()}


def render(report: Report, *, ascii_only: bool = False) -> str:
    """Return the report as one JSON object on one line; `ascii_only` for an output that has no
    other characters.
    """
    return json.dumps(encode_report(report), ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))


def encode_report(report: Report) -> dict[str, Any]:
    """Return the report as plain dictionaries, lists, strings, finite numbers, booleans
    and None.
    """
    return {
        "schema": SCHEMA,
        "source": repair_unicode(report.source),
        "headline": repair_unicode(report.headline),
        "verdict": repair_unicode(report.verdict),
        "warnings": _value(report.warnings),
        "findings": _value(report.findings),
        "struck": _value(report.struck),
        "next": _value(report.next),
        "tools": {repair_unicode(page.id): _page(page) for page in report.pages},
    }


def _page(page: Page) -> dict[str, Any]:
    return {
        "title": repair_unicode(page.title),
        "question": repair_unicode(page.question),
        "headline": repair_unicode(page.headline),
        "evidence": _value(page.evidence),
        "glance": _value(page.glance),
        "key_figures": _value(page.key_figures),
        "sections": [{"section": _KIND_OF[type(s)], **_value(s)} for s in page.sections],
        "tables": {repair_unicode(table.name): _table(table) for table in page.tables()},
        "findings": _value(page.findings),
        "unavailable": _value(page.unavailable),
        "failure": _value(page.failure),
    }


def encode_columns(table: Table) -> list[dict[str, Any]]:
    """Return the descriptions of a table's columns."""
    return [
        {
            "name": repair_unicode(f.name),
            "unit": f.unit.value,
            "label": repair_unicode(f.label),
            "meaning": repair_unicode(f.meaning),
            "key": f.key,
            "additive": f.additive,
        }
        for f in table.fields
    ]


def _table(table: Table) -> dict[str, Any]:
    values = [[encode_cell(v) for v in column.tolist()] for column in table.columns]
    return {
        "title": repair_unicode(table.title),
        "columns": encode_columns(table),
        "rows": [list(row) for row in zip(*values, strict=True)],
    }


def _value(value: Any) -> Any:
    """Return a value as JSON: a record by the names of its fields, and a table by its name, since
    its data is among the tables of its page.
    """
    return encode(value, encode_cell, _CONVERTERS)


def _finding(finding: Finding) -> dict[str, Any]:
    """Return a finding with its action in short beside the whole one."""
    fields = {field.name: _value(getattr(finding, field.name)) for field in dataclasses.fields(finding)}
    return {**fields, "short": encode_cell(finding.short)}


def _kind(saving: Saving) -> str:
    if saving.at_roof or saving.at_least:
        return "roof" if saving.at_roof else "floor"
    return "prediction" if saving.is_predicted else "bound"


def _saving(saving: Saving) -> dict[str, Any]:
    """Return a saving with its kind as a word, and both in time and as shares of the step."""
    return {
        "kind": _kind(saving),
        "low": encode_cell(saving.low),
        "high": encode_cell(saving.high),
        "low_ps": encode_cell(saving.low * saving.step) if saving.step else None,
        "high_ps": encode_cell(saving.high * saving.step) if saving.step else None,
        "step_ps": encode_cell(saving.step) if saving.step else None,
        "base": repair_unicode(saving.base),
        "takes_from": [repair_unicode(key) for key in saving.takes_from],
        "assumes": repair_unicode(saving.assumes),
    }


def encode_cell(value: Any) -> Any:
    """Return a cell as a JSON value: NumPy scalars become Python values, NaN and infinities None,
    any other object its text.
    """
    if hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return repair_unicode(str(value))


_CONVERTERS: Converters = {Table: lambda table: repair_unicode(table.name), Saving: _saving, Finding: _finding}

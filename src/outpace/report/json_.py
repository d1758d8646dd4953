"""The report as JSON for other programs; `docs/json-schema.md` describes every field.

Strict JSON: NaN and infinities are null, names are valid Unicode and whole. Within one schema number fields are only added.
"""

from __future__ import annotations

import json
import math
from typing import Any

from outpace.model import Evidence, Figures, Finding, Page, Report, Saving, Table, Threshold
from outpace.report.text import valid

SCHEMA = 2


def render(report: Report) -> str:
    """Return the report as one JSON object on one line."""
    return json.dumps(document(report), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def document(report: Report) -> dict[str, Any]:
    """Return the report as plain dictionaries, lists, strings, finite numbers, booleans and None."""
    return {
        "schema": SCHEMA,
        "source": valid(report.source),
        "headline": valid(report.headline),
        "warnings": [valid(w) for w in report.warnings],
        "findings": [_finding(f) for f in report.findings],
        "struck": [_finding(f) for f in report.struck],
        "tools": {valid(page.id): _page(page) for page in report.pages},
    }


def _page(page: Page) -> dict[str, Any]:
    why = page.unavailable
    return {
        "title": valid(page.title),
        "question": valid(page.question),
        "headline": valid(page.headline),
        "figures": [_figures(s) for s in page.sections if isinstance(s, Figures)],
        "tables": {valid(table.name): _table(table) for table in page.tables()},
        "findings": [_finding(f) for f in page.findings],
        "unavailable": {"reason": valid(why.reason), "remedy": valid(why.remedy)} if why else None,
    }


def _figures(section: Figures) -> dict[str, Any]:
    items = [
        {"label": valid(i.label), "value": plain(i.value), "unit": i.unit.value, "remark": valid(i.remark)}
        for i in section.items
    ]
    return {"title": valid(section.title), "items": items}


def _table(table: Table) -> dict[str, Any]:
    columns = [{"name": valid(f.name), "unit": f.unit.value, "meaning": valid(f.meaning)} for f in table.fields]
    values = [[plain(v) for v in column.tolist()] for column in table.columns]
    return {"title": valid(table.title), "columns": columns, "rows": [list(row) for row in zip(*values, strict=True)]}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": valid(finding.id),
        "severity": finding.severity.value,
        "sentence": valid(finding.sentence),
        "action": valid(finding.action),
        "evidence": [_evidence(e) for e in finding.evidence],
        "threshold": _threshold(finding.threshold) if finding.threshold else None,
        "counter_evidence": [valid(c) for c in finding.counter_evidence],
        "saving": _saving(finding.saving),
        "location": valid(finding.location),
        "host": valid(finding.host),
        "certainty": finding.certainty.value,
        "effort": finding.effort.value,
        "explains": [valid(rule) for rule in finding.explains],
        "symptom": valid(finding.symptom),
        "struck": valid(finding.struck),
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "says": valid(evidence.says),
        "value": plain(evidence.value),
        "unit": evidence.unit.value,
        "table": valid(evidence.table),
    }


def _threshold(threshold: Threshold) -> dict[str, Any]:
    return {
        "name": valid(threshold.name),
        "value": plain(threshold.value),
        "unit": threshold.unit.value,
        "source": valid(threshold.source),
    }


def _saving(saving: Saving | None) -> dict[str, Any] | None:
    if saving is None:
        return None
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

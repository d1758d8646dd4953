"""What the HTML templates fill in: every string cleaned, every number written out, nothing left to decide."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from outpace.model import Chart, ChartKind, Figures, Finding, Link, Links, Page, Report, Rows, Section, Unit
from outpace.model.text import clean, clean_prose, shorten, shown
from outpace.report import chart_data, html_data, svg
from outpace.report.first_screen import FirstScreen, first_screen, saving_bound, saving_text

STATIC_ROWS = 25
"""Rows of a table that stand in the page itself: for print, for notebooks, and until the script has run."""

_SHORT_NAME = 72
_MOST_COLUMNS = 240
_MOST_BARS = 30
_MOST_NAMED = 12
_THINNEST = 0.001


def document_view(report: Report) -> dict[str, Any]:
    """Everything that the full document shows."""
    screen = first_screen(report)
    first = screen.changes[0] if screen.changes else None
    places = {reference: _anchor(reference.partition(".")[0]) for reference in report.references()}
    return {
        "source": clean(report.source),
        "warnings": screen.warnings,
        "headline": screen.headline,
        "glance": _glance(report, screen.glance),
        "first": _finding(first, places) if first else None,
        "evidence": screen.evidence,
        "others": [_finding(f, places) for f in report.findings if f is not first],
        "pages": [
            {
                **page_view(page, f"p{i}", places, screen),
                "anchor": _anchor(page.id),
                "data": _embedded(page, f"p{i}"),
            }
            for i, page in enumerate(report.pages)
        ],
    }


def page_view(
    page: Page, prefix: str, places: Mapping[str, str] | None = None, screen: FirstScreen | None = None
) -> dict[str, Any]:
    """Everything that one page shows; `prefix` makes the ids of its tables unique in the document.

    `places` are the anchors of the pages that hold a table, by its reference (none: nothing is linked). What stands on the `screen` above
    it is not shown a second time.
    """
    ids = _table_ids(page, prefix)
    glance = page.glance if screen is None or page.glance is not screen.glance else None
    return {
        "title": clean(page.title),
        "question": clean_prose(page.question),
        "headline": clean_prose(page.headline),
        "unavailable": page.unavailable
        and {"reason": clean_prose(page.unavailable.reason), "remedy": clean_prose(page.unavailable.remedy)},
        "failure": page.failure and {"error": clean(page.failure.error), "trace": clean_prose(page.failure.trace)},
        "glance": glance and _section(glance, ids, f"{prefix}-g", {}),
        "sections": [_section(s, ids, f"{prefix}-s{i}", places or {}) for i, s in enumerate(page.sections)],
        "evidence": [clean_prose(line) for line in page.evidence] if screen is None else [],
        "findings": [_finding(f, places or {}) for f in page.findings],
    }


def _glance(report: Report, chart: Chart | None) -> dict[str, Any] | None:
    for i, page in enumerate(report.pages):
        if chart is not None and page.glance is chart:
            table_id = _table_ids(page, f"p{i}")[chart.table.name]
            return {**_chart(chart, ""), "behind": _table(chart, table_id)}
    return None


def _table_ids(page: Page, prefix: str) -> dict[str, str]:
    return {table.name: f"{prefix}-t{i}" for i, table in enumerate(page.tables())}


def _section(section: Section, ids: dict[str, str], section_id: str, places: Mapping[str, str]) -> dict[str, Any]:
    if isinstance(section, Chart):
        return {**_chart(section, section_id), "behind": _table(section, ids[section.table.name])}
    if isinstance(section, Rows):
        return {"kind": "rows", "remark": clean_prose(section.remark), "table": _table(section, ids[section.table.name])}
    if isinstance(section, Figures):
        items = [{"label": clean(i.label), "value": shown(i.value, i.unit), "remark": clean(i.remark)} for i in section.items]
        return {"kind": "figures", "title": clean(section.title), "items": items}
    if isinstance(section, Links):
        return {"kind": "links", "title": clean(section.title), "items": [_link(item, places) for item in section.items]}
    return {"kind": "text", "title": clean(section.title), "paragraphs": clean_prose(section.body).split("\n")}


def _link(item: Link, places: Mapping[str, str]) -> dict[str, str]:
    table = next((t for t in item.tables if t in places), "")
    value = shown(item.value, item.unit)
    return {
        "label": clean(item.label),
        "value": value,
        "why": clean_prose(item.why),
        "table": clean(table),
        "anchor": places.get(table, ""),
    }


def _anchor(page_id: str) -> str:
    return f"page-{_slug(page_id)}"


def _chart(chart: Chart, chart_id: str) -> dict[str, Any]:
    view: dict[str, Any] = {
        "kind": chart.kind.value,
        "id": chart_id,
        "title": clean(chart.title),
        "remark": clean_prose(chart.remark),
    }
    if chart.kind is ChartKind.STACK_SERIES:
        return {**view, **_columns(chart)}
    if chart.kind is ChartKind.GRAPH:
        return {**view, **_tree(chart)}
    if chart.kind is ChartKind.ICICLE:
        cells = chart_data.icicle(chart, _THINNEST)
        return {**view, "cells": len(cells), "svg": svg.icicle(cells)}
    return {**view, **_parts(chart)}


def _parts(chart: Chart) -> dict[str, Any]:
    parts = chart_data.parts(chart)
    unit = chart.table.field(chart.series[0]).unit
    most = max((p.value for p in parts), default=0.0)
    if chart.kind is ChartKind.BARS:
        kept = [{**_part(p), "bar": svg.length(p, most)} for p in parts[:_MOST_BARS]]
        return {"parts": kept, "left_out": len(parts) - len(kept)}
    draw = svg.pie if chart.kind is ChartKind.PIE else svg.stacked_bar
    order = sorted((p for p in parts if p.value > 0), key=lambda p: -p.value)
    return {
        "svg": draw(parts),
        "parts": [_part(p) for p in order[:_MOST_BARS]],
        "left_out": max(0, len(order) - _MOST_BARS),
        "total": shown(sum(p.value for p in parts), unit),
    }


def _part(part: chart_data.Part) -> dict[str, str]:
    share = f"{part.share * 100:.1f} %"
    return {"name": part.name, "short": shorten(part.name, _SHORT_NAME), "label": part.label, "share": share, "key": part.key}


def _columns(chart: Chart) -> dict[str, Any]:
    data = chart_data.columns(chart, _MOST_COLUMNS)
    used = [i for i, name in enumerate(chart.series) if chart_data.sizes(chart.table[name]).any()]
    x = chart.table.field(chart.x)
    return {
        "svg": svg.stacked_columns(data, clean(chart.title)),
        "legend": [{"key": data.keys[i], "name": data.names[i], "series": i} for i in used],
        "top": shown(data.top, data.unit),
        "ends": (data.labels[0], data.labels[-1]) if data.labels else ("", ""),
        "named": data.labels if x.unit is Unit.TEXT and len(data.labels) <= _MOST_NAMED else (),
        "x_label": clean(x.label),
        "per_column": data.per_column,
        "cut": data.highest and {"label": data.highest[0], "value": shown(data.highest[1], data.unit)},
        "select": chart.select and _select(chart),
    }


def _select(chart: Chart) -> dict[str, Any]:
    values = list(dict.fromkeys(chart.table[chart.select].tolist()))
    first = clean(values[0]) if values else ""
    return {"label": clean(chart.table.field(chart.select).label), "count": len(values), "first": first}


def _tree(chart: Chart) -> dict[str, Any]:
    tree = chart_data.tree(chart)
    heads = [{"label": clean(f.label), "meaning": clean(f.meaning), "right": _is_number(f.unit)} for f in tree.fields]
    nodes = [
        {
            "depth": min(node.depth, 16),
            "label": shorten(node.label, _SHORT_NAME),
            "full": node.label,
            "role": node.role if node.role in ("bottleneck", "critical") else "other",
            "cells": list(zip(heads, node.cells, strict=True)),
        }
        for node in tree.nodes
    ]
    return {"heads": heads, "nodes": nodes}


def _table(section: Rows | Chart, table_id: str) -> dict[str, Any]:
    table = section.table
    first = section.columns if isinstance(section, Rows) else ()
    fields = [table.field(n) for n in first] + [f for f in table.fields if f.name not in first]
    top = table.take(slice(0, STATIC_ROWS))
    columns = [[_cell(v, f.unit) for v in top[f.name].tolist()] for f in fields]
    return {
        "id": table_id,
        "title": clean(table.title),
        "heads": [{"label": clean(f.label), "meaning": clean(f.meaning), "right": _is_number(f.unit)} for f in fields],
        "rows": list(zip(*columns, strict=True)),
        "total": len(table),
        "total_text": f"{len(table):,}",
        "left_out": f"{len(table) - len(top):,}" if len(table) > len(top) else "",
        "not_carried": f"{html_data.MOST_ROWS:,}" if len(table) > html_data.MOST_ROWS else "",
        "file": _slug(table.name),
        "first": " ".join(first),
    }


def _embedded(page: Page, prefix: str) -> list[tuple[str, Markup]]:
    """(id, JSON) of what the scripts read: every shown table once, however often it is shown, and the charts to zoom into."""
    ids = _table_ids(page, prefix)
    found: dict[str, Markup] = {}
    pictures = [(f"{prefix}-g", page.glance), *((f"{prefix}-s{i}", section) for i, section in enumerate(page.sections))]
    for section_id, section in pictures:
        if not isinstance(section, (Rows, Chart)):
            continue
        table_id = ids[section.table.name]
        if table_id not in found:
            found[table_id] = html_data.embed(html_data.table_data(section.table))
        if isinstance(section, Chart) and section.kind is ChartKind.STACK_SERIES and len(section.table):
            found[section_id] = html_data.embed(html_data.chart_data(section, table_id))
    return list(found.items())


def _cell(value: object, unit: Unit) -> dict[str, Any]:
    text = shown(value, unit)
    return {"text": shorten(text, _SHORT_NAME), "full": text if len(text) > _SHORT_NAME else "", "right": _is_number(unit)}


def _finding(finding: Finding, places: Mapping[str, str]) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "sentence": clean_prose(finding.sentence),
        "action": clean_prose(finding.action),
        "saving": saving_text(finding),
        "bound": saving_bound(finding),
        "evidence": [
            {"text": clean(str(e)), "table": clean(e.table), "anchor": places.get(e.table, "")} for e in finding.evidence
        ],
        "threshold": finding.threshold and f"{clean(finding.threshold.name)} = {clean(str(finding.threshold))}",
        "counter_evidence": [clean(c) for c in finding.counter_evidence],
        "location": clean(finding.location),
        "symptom": clean_prose(finding.symptom),
        "host": clean(finding.host),
    }


def _is_number(unit: Unit) -> bool:
    return unit not in (Unit.TEXT, Unit.BOOL)


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:80]

# SPDX-License-Identifier: Apache-2.0
"""Values for the HTML templates: every string cleaned, every number formatted, so that templates
decide nothing.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from outpace.model import (
    Chart,
    ChartKind,
    Command,
    Figure,
    Figures,
    Finding,
    Link,
    Links,
    Page,
    Report,
    Section,
    Table,
    TableView,
    Unit,
)
from outpace.model.text import clean, clean_prose, elide, first_sentence, format_cell, shorten
from outpace.report import chart_data, html_data, html_tables, svg
from outpace.report.first_screen import FirstScreen, build_first_screen, format_assumption, format_saving, is_drawable
from outpace.report.html_anchors import Anchors
from outpace.report.recipes import find_recipe
from outpace.report.scatter import layout_scatter

_SHORT_NAME = 72
_MOST_COLUMNS = 240
_MOST_CHANGES = 3  # number of changes in the first view; further ones are below them
_MOST_BARS = 30
_MOST_NAMED = 12
_THINNEST = 0.002  # minimum width as a share of the picture's width: two pixels on a desktop screen


def document_view(report: Report, view_url: Callable[[str], str] | None = None, *, is_preview: bool = False) -> dict[str, Any]:
    """Return everything that the document shows. With `view_url`, only the summary is included, and
    `view_url` returns the URL of each view by its id; `is_preview` marks a document that will be
    completed.
    """
    return {**_document(report, Anchors(report), view_url), "first": is_preview}


def notebook_view(report: Report, prefix: str) -> dict[str, Any]:
    """Return everything of a report that appears in a notebook, which may show several reports;
    `prefix` begins all addresses of this one.
    """
    return _document(report, Anchors(report, prefix), None)


def _document(report: Report, places: Anchors, later: Callable[[str], str] | None) -> dict[str, Any]:
    screen = build_first_screen(report)
    shown_first = screen.changes[:_MOST_CHANGES]
    absent = [page for page in report.pages if page.unavailable and not (page.sections or page.glance or page.findings)]
    is_single = len(report.pages) == 1 and not absent and not report.advises and later is None
    return {
        "is_single": is_single,  # whether the page stands in the first view
        "id": places.summary,
        "absent_id": places.absent,
        "source": clean(report.source),
        "shell_source": shlex.quote(clean(report.source)),
        "warnings": screen.warnings,
        "headline": screen.headline,
        "glance": _glance(report, screen.glance, places),
        "figures": [] if is_single else [_figure(f) for f in screen.figures],
        "changes": [{**_finding(f, places), "host": screen.host(f)} for f in shown_first],
        "again": "" if shown_first or not report.advises else _again(report),
        "evidence": screen.evidence,
        "next": [_next(c, report, places) for c in screen.next],
        "others": [{**_finding(f, places), "host": screen.host(f)} for f in report.findings if f not in shown_first],
        "pages": [
            {"id": places.page_anchor(page), "title": clean(page.title), "later": later(places.page_anchor(page))}
            if later
            else _view(page, places, screen)
            for page in report.pages
            if page not in absent
        ],
        "absent": [_absent(page, places) for page in absent],
    }


def _next(command: Command, report: Report, places: Anchors) -> dict[str, Any]:
    """Return a command for the page, as a link where a view shows the same."""
    page = next((page for page in report.pages if page.id == command.tool and not page.unavailable), None)
    route, title = (places.page_anchor(page), clean(page.title)) if page else ("", "")
    return {"line": clean(command.line), "what": clean_prose(command.what), "route": route, "title": title}


def find_view(report: Report, view_id: str, rows_url: Callable[[str], str] | None) -> dict[str, Any] | None:
    """Return the contents of the document's view with that id; None where there is no such view.
    `rows_url` returns the URL of a table's rows for the table's address.
    """
    places = Anchors(report, rows_url=rows_url)
    page = next((page for page in report.pages if places.page_anchor(page) == view_id), None)
    return None if page is None else _view(page, places, build_first_screen(report))


def find_rows(report: Report, address: str, offset: int) -> list[Any] | None:
    """Return rows of the table at an address, from `offset` on, as `html_data.rows_data` stores
    them; None where the report has no such table.
    """
    places = Anchors(report)
    tables = ((places.table_anchors(page)[table.name], table) for page in report.pages for table in page.tables())
    table = next((table for anchor, table in tables if anchor == address), None)
    return None if table is None else html_data.rows_data(table, offset, html_data.MAX_ROWS)


def _view(page: Page, places: Anchors, screen: FirstScreen) -> dict[str, Any]:
    return {**page_view(page, places, screen), "data": () if places.is_static else _embed_data(page, places)}


def page_view(page: Page, anchors: Anchors | None = None, screen: FirstScreen | None = None) -> dict[str, Any]:
    """Return everything that one page shows.

    `anchors` are the addresses in the document (None: nothing is linked). Contents of the `screen`
    above the page are not repeated.
    """
    ids = _Ids(page, anchors)
    glance = page.glance if screen is None or page.glance is not screen.glance else None
    headline = clean_prose(page.headline)
    return {
        "id": ids.view,
        "title": clean(page.title),
        "question": clean_prose(page.question),
        "headline": headline if screen is None or headline != screen.headline else "",
        "unavailable": page.unavailable
        and {"reason": clean_prose(page.unavailable.reason), "remedy": clean_prose(page.unavailable.remedy)},
        "failure": page.failure and {"error": clean(page.failure.error), "trace": clean_prose(page.failure.trace)},
        "glance": glance and _section(glance, ids, ids.chart("glance")),
        "sections": [_section(s, ids, ids.chart(str(i))) for i, s in enumerate(page.sections)],
        "evidence": [clean_prose(line) for line in page.evidence] if screen is None else [],
        "findings": [_finding(f, anchors) for f in page.findings],
    }


class _Ids:
    """Ids of the elements of one page. A fragment has no ids, since a notebook may show a page
    twice.
    """

    def __init__(self, page: Page, places: Anchors | None) -> None:
        self.places, self.still = places, places is None or places.is_static
        self.view = places.page_anchor(page) if places else ""
        self._tables = places.table_anchors(page) if places else {}
        self.in_rows = frozenset(section.table.name for section in page.sections if isinstance(section, TableView))
        self._unused = set(self._tables.values())

    def data(self, table: Table) -> str:
        """Return the id of a table's embedded rows, which is also the address of the table."""
        return self._tables.get(table.name, "")

    def address(self, table_name: str) -> str:
        """Return the address of a table of the page that a reader can open; "" for none."""
        return "" if self.still else self._tables.get(table_name, "")

    def once(self, table: Table) -> str:
        """Return the address of a table where it is shown for the first time; empty where it is
        repeated.
        """
        route = self.data(table)
        if route not in self._unused:
            return ""
        self._unused.discard(route)
        return route

    def chart(self, name: str) -> str:
        """Return the id of a chart's embedded data."""
        return f"{self.view}/chart-{name}" if self.view and not self.still else ""


def _again(report: Report) -> str:
    """Return the recommendation for a report without advice: a profile without results should be
    captured again.
    """
    gone = next((page.unavailable for page in report.pages if page.unavailable is not None), None)
    if gone is not None and not any(is_drawable(page.glance) for page in report.pages):
        return f"Capture again: {clean_prose(gone.remedy)}"
    return "Nothing was found that is worth a change."


def _absent(page: Page, places: Anchors) -> dict[str, str]:
    gone = page.unavailable
    reason, remedy = (clean_prose(gone.reason), clean_prose(gone.remedy)) if gone else ("", "")
    return {"id": places.page_anchor(page), "title": clean(page.title), "reason": reason, "remedy": remedy}


def _glance(report: Report, chart: Chart | None, places: Anchors) -> dict[str, Any] | None:
    for page in report.pages:
        if chart is not None and page.glance is chart:
            ids = _Ids(page, places)
            for section in page.sections:  # the address leads to the page's own view of the table where it has one
                if isinstance(section, (TableView, Chart)):
                    ids.once(section.table)
            return {**_chart(chart, ""), "behind": _table(chart, ids)}
    return None


def _figure(figure: Figure) -> dict[str, str]:
    return {"label": clean(figure.label), "value": format_cell(figure.value, figure.unit), "remark": clean(figure.remark)}


def _section(section: Section, ids: _Ids, section_id: str) -> dict[str, Any]:
    if isinstance(section, Chart):
        return {
            **_chart(section, section_id, ids.address(section.detail)),
            "behind": None if section.table.name in ids.in_rows else _table(section, ids),
        }
    if isinstance(section, TableView):
        return {
            "kind": "rows",
            "folded": section.folded,
            "remark": clean_prose(section.remark),
            "table": _table(section, ids),
        }
    if isinstance(section, Figures):
        return {"kind": "figures", "blocks": [_block(figures) for figures in (section, *section.others)]}
    if isinstance(section, Links):
        items = [_link(item, ids.places) for item in section.items]
        return {"kind": "links", "title": clean(section.title), "items": items}
    return {"kind": "text", "title": clean(section.title), "paragraphs": clean_prose(section.body).split("\n")}


def _block(figures: Figures) -> dict[str, Any]:
    choice = json.dumps([clean(value) for value in figures.choice], ensure_ascii=False, separators=(",", ":"))
    return {
        "title": clean(figures.title),
        "items": [_figure(item) for item in figures.items],
        "choice": choice if figures.choice else "",
    }


def _link(item: Link, places: Anchors | None) -> dict[str, str]:
    table, route = next(((t, places.table_anchor(t)) for t in item.tables if places and places.table_anchor(t)), ("", ""))
    value = format_cell(item.value, item.unit)
    return {"label": clean(item.label), "value": value, "why": clean_prose(item.why), "table": clean(table), "route": route}


def _chart(chart: Chart, chart_id: str, detail: str = "") -> dict[str, Any]:
    """Return the contents of a chart. `detail`: address of the table of its `detail`."""
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
        cells = chart_data.layout_icicle(chart, _THINNEST)
        legend = [{"key": key, "name": word} for key, word in chart_data.find_states(chart)]
        return {**view, "drawn": len(cells), "svg": svg.icicle(cells), "legend": legend}
    if chart.kind is ChartKind.AREA:
        return {**view, **_area(chart)}
    if chart.kind is ChartKind.SCATTER:
        plot = layout_scatter(chart)
        legend = [{"key": key, "name": word} for key, word in chart_data.find_states(chart)]
        return {**view, "svg": svg.scatter(plot, clean(chart.title), detail) if plot is not None else "", "legend": legend}
    return {**view, **_parts(chart)}


def _parts(chart: Chart) -> dict[str, Any]:
    parts = chart_data.compute_parts(chart)
    unit = chart.table.field(chart.series[0]).unit
    if chart.kind in (ChartKind.BARS, ChartKind.PIE):
        wholes = [_bars(one, _choice(chart, chosen)) for chosen, one in chart.iter_choices()]
        return {"wholes": wholes, "drawn": len(parts), "several": len(wholes) > 1}
    drawn = [p for p in sorted(parts, key=lambda p: -p.value) if p.value > 0]
    return {
        "svg": svg.stacked_bar(parts, clean(chart.title)),
        "parts": _part_views(drawn[:_MOST_BARS]),
        "left_out": max(0, len(drawn) - _MOST_BARS),
        "total": format_cell(sum(p.value for p in parts), unit),
    }


def _choice(chart: Chart, chosen: Sequence[object]) -> str:
    """Return the choices as text above a picture: "Side Device, Self time by layer"."""
    return ", ".join(
        f"{clean(chart.table.field(name).label)} {clean(v)}" for name, v in zip(chart.choice_columns(), chosen, strict=True)
    )


def _bars(chart: Chart, title: str) -> dict[str, Any]:
    """Return one whole as bars."""
    parts = chart_data.compute_parts(chart)
    most = chart_data.max_bar_value(parts)
    named = zip(_part_views(parts[:_MOST_BARS]), parts, strict=False)
    views = [{**view, "bar": "" if p.name == chart_data.OTHERS_NAME else svg.single_bar(p, most)} for view, p in named]
    return {
        "title": title,
        "parts": views,
        "left_out": len(parts) - len(views),
        "shares": chart.kind is ChartKind.PIE,
    }


def _part_views(parts: Sequence[chart_data.ChartPart]) -> list[dict[str, Any]]:
    short = elide([p.name for p in parts], _SHORT_NAME)
    return [
        {"name": p.name, "short": s, "label": p.label, "share": f"{p.share * 100:.1f}%", "key": p.color_key}
        for p, s in zip(parts, short, strict=True)
    ]


def _columns(chart: Chart) -> dict[str, Any]:
    data = chart_data.compute_columns(chart, _MOST_COLUMNS)
    used = [i for i, name in enumerate(chart.series) if chart_data.sizes(chart.table[name]).any()]
    x = chart.table.field(chart.x)
    return {
        "svg": svg.stacked_columns(data, clean(chart.title)),
        "legend": [{"key": data.color_keys[i], "name": data.names[i], "series": i} for i in used],
        "x": chart.x,
        "top": format_cell(data.axis_end, data.unit),
        "ends": (data.labels[0], data.labels[-1]) if data.labels else ("", ""),
        "named": data.labels if x.unit is Unit.TEXT and len(data.labels) <= _MOST_NAMED else (),
        "x_label": clean(x.label),
        "per_column": data.rows_per_column,
        "cut": data.maximum and {"label": data.maximum[0], "value": format_cell(data.maximum[1], data.unit)},
        "select": chart.select and _select(chart),
    }


def _area(chart: Chart) -> dict[str, Any]:
    data = chart_data.compute_area_columns(chart, _MOST_COLUMNS)
    x = chart.table.field(chart.x)
    return {
        "drawn": len(data.labels),
        "svg": svg.stacked_columns(data, clean(chart.title), gap=0.0),
        "legend": [{"key": key, "name": name} for key, name in zip(data.color_keys, data.names, strict=True)],
        "top": format_cell(data.axis_end, data.unit),
        "ends": (data.labels[0], data.labels[-1]) if data.labels else ("", ""),
        "x_label": clean(x.label),
        "of": _first_choice(chart),
    }


def _first_choice(chart: Chart) -> str:
    """Return which rows a static picture shows, where there are several to choose from."""
    several = [name for name in chart.choice_columns() if len(set(chart.table[name].tolist())) > 1]
    return ", ".join(f"{clean(chart.table.field(name).label)}: {clean(chart.initial_table()[name][0])}" for name in several)


def _select(chart: Chart) -> dict[str, Any]:
    values = [clean(v) for v in dict.fromkeys(chart.table[chart.select].tolist())]
    return {"label": clean(chart.table.field(chart.select).label), "values": values}


def _tree(chart: Chart) -> dict[str, Any]:
    tree = chart_data.build_tree(chart)
    heads = [
        {"label": clean(f.label), "meaning": clean(f.meaning), "right": html_tables.is_numeric_unit(f.unit)}
        for f in tree.fields
    ]
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
    return {"drawn": len(nodes), "heads": heads, "nodes": nodes, "of": _first_choice(chart)}


def _table(section: TableView | Chart, ids: _Ids) -> dict[str, Any]:
    table = section.table
    most = html_data.MAX_SERVED_ROWS if ids.places and ids.places.rows_url else html_data.MAX_ROWS
    return {
        **html_tables.build_table_view(section, raw=ids.still, row_limit=most),
        "id": ids.once(table),
        "data": "" if ids.still else ids.data(table),
    }


def _embed_data(page: Page, places: Anchors) -> list[tuple[str, Markup]]:
    """Return (id, JSON) of the data for the scripts: every shown table once, and the interactive
    charts.
    """
    ids = _Ids(page, places)
    drawn = {section.table.name for section in (page.glance, *page.sections) if isinstance(section, Chart)}  # as a whole
    data: dict[str, Markup] = {}
    for name, section in (("glance", page.glance), *((str(i), section) for i, section in enumerate(page.sections))):
        if not isinstance(section, (TableView, Chart)):
            continue
        table_id = ids.data(section.table)
        if table_id not in data:
            more = places.rows_url(table_id) if places.rows_url and section.table.name not in drawn else ""
            data[table_id] = html_data.embed_json(html_data.table_data(section.table, more))
        if isinstance(section, Chart) and len(section.table):
            chart_id = ids.chart(name)
            if section.kind is ChartKind.STACK_SERIES:
                data[chart_id] = html_data.embed_json(html_data.stacked_chart_data(section, table_id))
            elif html_data.chart_assets(section):
                data[chart_id] = html_data.embed_json(html_data.interactive_chart_data(section, chart_id, table_id))
    return [(f"data:{name}", json) for name, json in data.items()]


def _finding(finding: Finding, places: Anchors | None) -> dict[str, Any]:
    table, action = places.table_anchor if places else lambda _: "", clean_prose(finding.action)
    return {
        "id": places.finding_anchor(finding) if places else "",
        "severity": finding.severity.value,
        "sentence": clean_prose(finding.sentence),
        "short": clean_prose(finding.short),
        "details": first_sentence(action).removeprefix(clean_prose(finding.short)),
        "more": action.removeprefix(first_sentence(action)).strip(),
        "recipe": find_recipe(clean_prose(finding.short)),
        "saving": format_saving(finding),
        "share": finding.saving.high if finding.saving else 0.0,
        "bound": format_assumption(finding),
        "evidence": [{"text": clean(str(e)), "table": clean(e.table), "route": table(e.table)} for e in finding.evidence],
        "threshold": finding.threshold and f"{clean(finding.threshold.name)} = {clean(str(finding.threshold))}",
        "counter_evidence": [clean(c) for c in finding.counter_evidence],
        "location": clean(finding.location),
        "symptom": clean_prose(finding.symptom),
        "host": clean(finding.host),
    }

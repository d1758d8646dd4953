# SPDX-License-Identifier: Apache-2.0
"""Anchors of a report's HTML file: the text after the `#` of a URL.

The anchor of a view is its tool (`#tf_data`), of a table `#tf_data/stages`, of a row its number
(`#tf_data/stages/17`), of a finding its rule (`#tf_data/finding/slow_stage`), of a chart's
column its axis (`#overview/step/17`). The ids of elements are the same texts, so that a browser
finds views, tables and findings without a script; `assets/routes.js` finds rows and columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from outpace.model import Chart, Finding, Page, Report, TableView

SUMMARY = "summary"
"""Anchor of the first view, the summary of the report."""


class Anchors:
    """Addresses of what a report shows. Names are made harmless and stay different from each other.

    `prefix` stands before each of them, where a document may show several reports: a notebook. Such
    a report is `is_static`: it carries no data to sort, filter or draw from. `rows_url`: where a
    server has the rows of a table, by its address; none in a file.
    """

    def __init__(self, report: Report, prefix: str = "", rows_url: Callable[[str], str] | None = None) -> None:
        used_anchors = {SUMMARY, "absent"}
        self.rows_url = rows_url
        self.is_static, self.summary, self.absent = bool(prefix), prefix + SUMMARY, prefix + "absent"
        self._pages = {page.id: prefix + _unused_anchor(slug(page.id), used_anchors) for page in report.pages}
        self._tables: dict[str, str] = {}
        self._findings: dict[tuple[str, ...], str] = {}
        for page in report.pages:
            view = self._pages[page.id]
            anchors = {table: f"{view}/{name}" for table, name in _name_anchors(_drawn_tables(page), {"finding"}).items()}
            self._tables |= {f"{page.id}.{table.name}": anchors.get(table.name, view) for table in page.tables()}
            used: set[str] = set()
            for finding in page.findings:
                self._findings.setdefault(_key(finding), f"{view}/finding/{_unused_anchor(slug(finding.id), used)}")

    def page_anchor(self, page: Page) -> str:
        """Return the address of a tool's view."""
        return self._pages[page.id]

    def table_anchors(self, page: Page) -> Mapping[str, str]:
        """Return the addresses of the tables of a page by their names; a table that is not shown
        has the address of the view.
        """
        return {table.name: self._tables[f"{page.id}.{table.name}"] for table in page.tables()}

    def table_anchor(self, reference: str) -> str:
        """Return the address of the table with the reference `tool.table` in evidence or a link;
        empty where the report has no such table.
        """
        return self._tables.get(reference, "")

    def finding_anchor(self, finding: Finding) -> str:
        """Return the address of a finding in the view of its tool; empty where no view shows it."""
        return self._findings.get(_key(finding), "")


def slug(name: str) -> str:
    """Return a name as a part of an address and of a file's name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:80]


def _drawn_tables(page: Page) -> Iterable[str]:
    pictures = (page.glance, *page.sections)
    return dict.fromkeys(s.table.name for s in pictures if isinstance(s, (TableView, Chart)))


def _name_anchors(names: Iterable[str], used: set[str]) -> dict[str, str]:
    return {name: _unused_anchor(slug(name), used) for name in names}


def _unused_anchor(name: str, used: set[str]) -> str:
    """Return `name`, with a number appended where needed to differ from all used names."""
    free, number = name or "_", 1
    while free in used:
        number += 1
        free = f"{name}-{number}"
    used.add(free)
    return free


def _key(finding: Finding) -> tuple[str, ...]:
    return (finding.id, finding.location, finding.host, finding.sentence)

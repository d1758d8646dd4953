# SPDX-License-Identifier: Apache-2.0
"""Converts reports and their pages to answers of `outpace mcp`."""

from __future__ import annotations

from collections.abc import Sequence

from outpace.mcp import rows
from outpace.mcp.answers import AdvisedChange, PageAnswer, StepPart, TablePreview, VerdictAnswer
from outpace.mcp.size_limit import shorten_text, truncate_answer
from outpace.model import Figures, Finding, NotFoundError, Page, Report, TableView, UsageError
from outpace.model.text import format_cell
from outpace.report import chart_data
from outpace.report.first_screen import build_first_screen, format_saving

_COLUMNS, _ROWS = 8, 10  # maximum number of columns and rows in a preview of a page's table


def build_verdict(report: Report) -> VerdictAnswer:
    """Return the answer that a report's first screen contains."""
    screen = build_first_screen(report)
    answer = VerdictAnswer(
        headline=shorten_text(screen.headline),
        warnings=[shorten_text(warning) for warning in screen.warnings],
        figures={shorten_text(figure.label): format_cell(figure.value, figure.unit) for figure in screen.figures},
        step=[
            StepPart(name=part.name, time=part.label, share=round(part.share, 4))
            for part in (chart_data.compute_parts(screen.glance) if screen.glance else ())
            if part.value > 0
        ],
        changes=[_change(finding) for finding in screen.changes],
        confidence=[shorten_text(line) for line in screen.evidence],
    )
    more = "Further changes are left out: the tables of the tools have what they are drawn from."
    return truncate_answer(answer, [answer.changes, answer.confidence, answer.warnings], lambda: more)


def require_available(pages: Sequence[Page]) -> None:
    """Raise NotFoundError where a page has no data, and UsageError where its tool failed."""
    for page in pages:
        if page.unavailable is not None:
            raise NotFoundError(f"{page.unavailable.reason.rstrip('.')}. {page.unavailable.remedy}")
        if page.failure is not None:
            raise UsageError(f"The tool {page.id} failed: {page.failure.error}.")


def _change(finding: Finding) -> AdvisedChange:
    """Return a finding as an advised change."""
    return AdvisedChange(
        id=finding.id,
        finding=shorten_text(finding.sentence),
        action=shorten_text(finding.action),
        saves=format_saving(finding),
        location=shorten_text(finding.location),
        host=shorten_text(finding.host),
        certainty=finding.certainty.value,
        evidence=[shorten_text(line) for line in finding.evidence],
    )


def build_page_answer(page: Page, more: str) -> PageAnswer:
    """Return a page as its sentence, its numbers, and the first rows of its tables."""
    require_available([page])
    figures = {
        shorten_text(item.label): " ".join(filter(None, (format_cell(item.value, item.unit), shorten_text(item.remark))))
        for section in page.sections
        if isinstance(section, Figures)
        for item in section.items
    }
    tables = []
    for section in page.sections:
        if isinstance(section, TableView) and len(section.table):
            columns = list(section.columns or [field.name for field in section.table.fields])[:_COLUMNS]
            part = section.table.take(slice(0, _ROWS))
            tables.append(
                TablePreview(
                    title=shorten_text(section.table.title),
                    columns=[_column_title(section, name) for name in columns],
                    rows=rows.format_cells(part, columns),
                )
            )
    answer = PageAnswer(headline=shorten_text(page.headline), figures=figures, tables=tables)
    return truncate_answer(answer, [table.rows for table in tables], lambda: more)


def _column_title(section: TableView, column: str) -> str:
    """Return a column's name with its unit."""
    unit = section.table.field(column).unit.value
    return column if unit == "text" else f"{column} ({unit})"

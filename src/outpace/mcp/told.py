"""What reports and pages say, as answers."""

from __future__ import annotations

from collections.abc import Sequence

from outpace.mcp import rows
from outpace.mcp.fit import cut, fitted
from outpace.mcp.shapes import Change, Part, Shown, Told, Verdict
from outpace.model import Figures, Finding, NotFoundError, Page, Report, Rows, UsageError
from outpace.model.text import shown
from outpace.report import chart_data
from outpace.report.first_screen import first_screen, saving_text

_COLUMNS, _ROWS = 8, 10  # of a page's table


def verdict(report: Report) -> Verdict:
    """The first screen."""
    screen = first_screen(report)
    answer = Verdict(
        headline=cut(screen.headline),
        warnings=[cut(each) for each in screen.warnings],
        figures={cut(figure.label): shown(figure.value, figure.unit) for figure in screen.figures},
        step=[
            Part(name=part.name, time=part.label, share=round(part.share, 4))
            for part in (chart_data.parts(screen.glance) if screen.glance else ())
            if part.value > 0
        ],
        changes=[_change(finding) for finding in screen.changes],
        confidence=[cut(each) for each in screen.evidence],
    )
    more = "Further changes are left out: the tables of the tools have what they are drawn from."
    return fitted(answer, [answer.changes, answer.confidence, answer.warnings], lambda: more)


def require(pages: Sequence[Page]) -> None:
    """Raise NotFoundError where a page has no answer, and UsageError where its tool failed."""
    for page in pages:
        if page.unavailable is not None:
            raise NotFoundError(f"{page.unavailable.reason.rstrip('.')}. {page.unavailable.remedy}")
        if page.failure is not None:
            raise UsageError(f"The tool {page.id} failed: {page.failure.error}.")


def _change(finding: Finding) -> Change:
    return Change(
        id=finding.id,
        finding=cut(finding.sentence),
        action=cut(finding.action),
        saves=saving_text(finding),
        location=cut(finding.location),
        host=cut(finding.host),
        certainty=finding.certainty.value,
        evidence=[cut(each) for each in finding.evidence],
    )


def page_of(page: Page, more: str) -> Told:
    """A page as its sentence, its numbers, and the first rows of its tables."""
    require([page])
    figures = {
        cut(item.label): " ".join(filter(None, (shown(item.value, item.unit), cut(item.remark))))
        for section in page.sections
        if isinstance(section, Figures)
        for item in section.items
    }
    tables = []
    for section in page.sections:
        if isinstance(section, Rows) and len(section.table):
            columns = list(section.columns or [field.name for field in section.table.fields])[:_COLUMNS]
            part = section.table.take(slice(0, _ROWS))
            tables.append(
                Shown(
                    title=cut(section.table.title),
                    columns=[_titled(section, c) for c in columns],
                    rows=rows.cells(part, columns),
                )
            )
    answer = Told(headline=cut(page.headline), figures=figures, tables=tables)
    return fitted(answer, [table.rows for table in tables], lambda: more)


def _titled(section: Rows, column: str) -> str:
    unit = section.table.field(column).unit.value
    return column if unit == "text" else f"{column} ({unit})"

# SPDX-License-Identifier: Apache-2.0
"""Pages of tools in a terminal: one block per page, for any width from 40 columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.rule import Rule
from rich.text import Text

from outpace.model import (
    Chart,
    Figures,
    Finding,
    Links,
    Page,
    Paragraph,
    Section,
    Severity,
    TableView,
    ToolFailure,
    Unavailable,
)
from outpace.model.text import clean, clean_prose, format_cell
from outpace.model.units import format_count
from outpace.report import terminal_charts
from outpace.report.console import PlainConsole
from outpace.report.first_screen import format_assumption, format_saving
from outpace.report.terminal_blocks import BlockWriter
from outpace.report.terminal_grid import TextColumn, layout_grid

_SEVERITY_STYLES = {
    Severity.HIGH: "bold red",
    Severity.MODERATE: "bold yellow",
    Severity.POTENTIAL: "bold cyan",
    Severity.INFO: "bold",
}


class PageWriter(BlockWriter):
    """Writer of pages. `references`: the tables that the report has; `files`: options of the
    command that write all rows of tables.
    """

    def __init__(self, console: PlainConsole, references: Collection[str], files: Sequence[str]) -> None:
        super().__init__(console)
        self.references, self.files = references, files
        self.colored = console.color_system is not None

    def pages(self, pages: Sequence[Page], drawn: Chart | None, *, fold_unavailable: bool) -> None:
        """Print pages, without the chart `drawn`, which was printed already. `fold_unavailable`:
        pages without contents come last, each in a line.
        """
        folded = [fold_unavailable and page.unavailable is not None for page in pages]
        for page, is_folded in zip(pages, folded, strict=True):
            if not is_folded:
                self._page(page, drawn)
        self._fold([page for page, is_folded in zip(pages, folded, strict=True) if is_folded])

    def _page(self, page: Page, drawn: Chart | None) -> None:
        """Print one page: title, question, headline, then its sections and findings, without the
        chart `drawn`, which was printed already.
        """
        self._blank()
        self.console.print(Rule(Text(clean(page.title), style="bold"), align="left", style="dim", characters="─"))
        if page.question:
            self._prose(clean_prose(page.question), "dim italic")
        if page.headline:
            self._prose(clean_prose(page.headline), "bold")
        if page.unavailable:
            self._print_unavailable(page.unavailable)
        if page.failure:
            self._failure(page.failure)
        if page.glance and page.glance is not drawn:
            self._chart(page.glance)
        for section in page.sections:
            self._section(section)
        self._evidence(page.evidence)
        for finding in page.findings:
            self._blank()
            self._finding(finding)

    def _fold(self, pages: Sequence[Page]) -> None:
        """Print the pages without contents, each in a line."""
        if not pages:
            return
        self._blank()
        self.console.print(
            Rule(Text("Not measurable in this profile", style="bold"), align="left", style="dim", characters="─")
        )
        edge = max(len(page.id) for page in pages) + 2
        for page in pages:
            self._print(
                Text(clean_prose(page.unavailable.reason if page.unavailable else ""), "dim"), 2, label=f"{page.id:<{edge}}"
            )

    def _evidence(self, lines: Sequence[str]) -> None:
        if lines:
            self._blank()
            self._prose("Confidence", "bold")
        for line in lines:
            self._prose(f"· {clean_prose(line)}", hang=2)

    def _section(self, section: Section) -> None:
        if isinstance(section, Chart):
            self._chart(section)
        elif isinstance(section, TableView):
            self._rows(section)
        elif isinstance(section, Figures):
            self._figures(section)
        elif isinstance(section, Links):
            self._links(section)
        else:
            self._paragraph(section)

    def _paragraph(self, section: Paragraph) -> None:
        self._heading(section.title)
        self._prose(clean_prose(section.body))

    def _links(self, section: Links) -> None:
        tables = [next((t for t in item.tables if t in self.references), "") for item in section.items]
        where = TextColumn(
            "", tuple(f"--tool {clean(t.replace('.', ' (table ', 1))})" if t else "" for t in tables), fixed=True
        )
        self._numbers(section, where, TextColumn("", tuple(clean_prose(i.why) for i in section.items), prose=True))

    def _figures(self, section: Figures) -> None:
        self._numbers(section, TextColumn("", tuple(clean(i.remark) for i in section.items), prose=True))

    def _numbers(self, section: Figures | Links, *more: TextColumn) -> None:
        """Print figures with their names and further columns."""
        self._heading(section.title)
        names = TextColumn("", tuple(clean(i.label) for i in section.items))
        values = TextColumn("", tuple(format_cell(i.value, i.unit) for i in section.items), right=True)
        self._lines(layout_grid((names, values, *more), self.width, header=False)[0])

    def _chart(self, chart: Chart) -> None:
        self._heading(chart.title)
        self._lines(terminal_charts.render_chart(chart, self.width, self.colored))
        if chart.remark:
            self._prose(clean_prose(chart.remark), "dim")

    def _rows(self, section: TableView) -> None:
        table = section.table
        self._heading(table.title)
        if not len(table) or section.folded:
            self._prose(
                f"{format_count(len(table), 'row')} (use {' or '.join(self.files)})" if len(table) else "no rows", "dim"
            )
            return
        top = table.take(slice(0, section.limit))
        fields = [table.field(n) for n in section.columns] or list(table.fields)
        columns = [
            TextColumn(
                clean(f.label),
                tuple(format_cell(v, f.unit) for v in top[f.name].tolist()),
                terminal_charts.is_numeric_unit(f.unit.value),
            )
            for f in fields
        ]
        lines, dropped = layout_grid(columns, self.width)
        self._lines(lines)
        if len(table) > len(top):
            self._prose(f"… and {format_count(len(table) - len(top), 'more row')} (use {' or '.join(self.files)})", "dim")
        if dropped:
            have = f"{' and '.join(self.files)} {'has' if len(self.files) == 1 else 'have'} them"
            self._prose(f"Hidden columns (terminal too narrow; {have}): {', '.join(dropped)}", "dim")
        if section.remark:
            self._prose(clean_prose(section.remark), "dim")

    def _finding(self, finding: Finding) -> None:
        head = Text(finding.severity.value.upper() + "  ", style=_SEVERITY_STYLES[finding.severity])
        host = f" [{clean(finding.host)}]" if finding.host else ""
        self._print(head.append(clean_prose(finding.sentence) + host, style="default"), 2, hang=2)
        self._prose(f"→ {clean_prose(finding.action)}", indent=4, hang=2)
        if saving := format_saving(finding):
            self._prose(f"saves: {saving}", "green", indent=4, hang=2)
            self._prose(f"({format_assumption(finding)})", "dim", indent=4, hang=2)
        for evidence in finding.evidence:
            self._prose(f"evidence: {clean(str(evidence))}  (table {clean(evidence.table)})", "dim", indent=4, hang=2)
        if finding.threshold:
            self._prose(
                f"threshold: {clean(finding.threshold.name)} = {clean(str(finding.threshold))}", "dim", indent=4, hang=2
            )
        for counter in finding.counter_evidence:
            self._prose(f"caveat: {clean(counter)}", "dim", indent=4, hang=2)
        if finding.location:
            self._prose(f"where: {clean(finding.location)}", "dim", indent=4, hang=2)
        if finding.symptom:
            self._prose(f"causes: {clean_prose(finding.symptom)}", "dim", indent=4, hang=2)

    def _print_unavailable(self, why: Unavailable) -> None:
        self._prose(f"Not measurable in this profile: {clean_prose(why.reason)}", "yellow")
        self._prose(f"→ {clean_prose(why.remedy)}")

    def _failure(self, failure: ToolFailure) -> None:
        self._prose(f"This tool failed: {clean(failure.error)}", "bold red")
        self._prose(
            "→ All other pages stand. The trace is in the JSON output; please report it with the profile, if you may share it."
        )

    def _heading(self, title: str) -> None:
        self._blank()
        if title:
            self._prose(clean(title), "bold")

"""Report in a terminal: the first screen, then one block per page, for any width
from 40 columns.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Collection, Sequence
from typing import TextIO

from rich.rule import Rule
from rich.text import Text

from outpace.model import (
    Chart,
    Command,
    Figures,
    Finding,
    Links,
    Page,
    Report,
    Section,
    Severity,
    TableView,
    ToolFailure,
    Unavailable,
)
from outpace.model import Paragraph as Paragraph
from outpace.model.text import clean, clean_prose, format_cell
from outpace.model.units import format_count
from outpace.report import terminal_charts, terminal_screen
from outpace.report.console import PlainConsole
from outpace.report.first_screen import FirstScreen, build_first_screen, format_assumption, format_saving
from outpace.report.terminal_grid import TextColumn, layout_grid

_SEVERITY_STYLES = {
    Severity.HIGH: "bold red",
    Severity.MODERATE: "bold yellow",
    Severity.POTENTIAL: "bold cyan",
    Severity.INFO: "bold",
}
_NARROWEST = 40
_HEIGHT = 25  # console height, which only avoids that Rich asks the terminal for it at every line
_WIDEST_PROSE = 110
FILE_OPTIONS = ("--csv", "--html")  # options of `outpace report` that write all rows of a table


def render(
    report: Report, *, width: int | None = None, color: bool = False, tools: Sequence[str] | None = None, details: bool = False
) -> str:
    """Return the report as text.

    `width` is in columns (None: the terminal's). Only the first screen is included, unless `tools`
    lists ids of pages, which then replace it below the warnings, or `details` adds every page after
    it.
    """
    out = io.StringIO()
    _write(report, _console(out, width, color), tools, details)
    return out.getvalue()


def print_report(
    report: Report,
    *,
    file: TextIO | None = None,
    width: int | None = None,
    color: bool | None = None,
    tools: Sequence[str] | None = None,
    details: bool = False,
    show_commands: bool = False,
    file_options: Sequence[str] = FILE_OPTIONS,
) -> None:
    """Print the report to `file` (standard output). Terminals get colours, unless `NO_COLOR` or
    `color` overrides it.

    `show_commands`: whether next commands also follow the pages of `tools`. `file_options`: options
      of the command that write all rows of tables.
    """
    console = _console(file or sys.stdout, width, color)
    _write(report, console, tools, details, file_options)
    if show_commands and report.next:
        _Writer(console, (), file_options).commands(report.next)


def _console(file: TextIO, width: int | None, color: bool | None) -> PlainConsole:
    columns = width or shutil.get_terminal_size((80, 24)).columns
    return PlainConsole(
        file=file,
        width=max(columns, _NARROWEST),
        height=_HEIGHT,
        force_terminal=color,
        no_color=None if color is None else not color,
        color_system="auto" if color is None else "truecolor" if color else None,
    )


def _write(
    report: Report, console: PlainConsole, tools: Sequence[str] | None, details: bool, files: Sequence[str] = FILE_OPTIONS
) -> None:
    writer = _Writer(console, report.references(), files)
    screen = build_first_screen(report)
    if tools is None:
        writer.screen(screen)
        told = [page for page in report.pages if details and page.unavailable is None]
        silent = [page for page in report.pages if details and page.unavailable is not None]
    else:
        writer.warnings(screen)
        told, silent = [page for page in report.pages if page.id in tools], []
    for page in told:
        writer.page(page, screen.glance if tools is None else None)
    writer.silent(silent)


class _Writer:
    """Writer of blocks to one console, with its width and colours."""

    def __init__(self, console: PlainConsole, references: Collection[str], files: Sequence[str]) -> None:
        self.console, self.references, self.files = console, references, files
        self.colored = console.color_system is not None
        self.width = console.width - 2  # every block is indented by two

    def warnings(self, screen: FirstScreen) -> None:
        """Print the warnings about missing or doubtful data, before any results."""
        for warning in screen.warnings:
            self._prose(f"! {warning}", "yellow", hang=2)
        if screen.warnings:
            self._blank()

    def screen(self, screen: FirstScreen) -> None:
        self._lines(terminal_screen.render_screen(screen, self.console, min(self.width, _WIDEST_PROSE)), crop=False)

    def page(self, page: Page, drawn: Chart | None) -> None:
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
            self._unavailable(page.unavailable)
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

    def silent(self, pages: Sequence[Page]) -> None:
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

    def commands(self, commands: Sequence[Command]) -> None:
        """Print the next commands with their reasons, in as many lines as needed."""
        self._blank()
        for line, command in zip(terminal_screen.render_commands(commands, 0), commands, strict=True):
            self._lines([line], crop=False)
            self._prose(clean_prose(command.what), "dim", indent=2 + terminal_screen.LABEL_WIDTH)

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
        found = [next((t for t in item.tables if t in self.references), "") for item in section.items]
        where = TextColumn("", tuple(f"--tool {clean(t.replace('.', ' (table ', 1))})" if t else "" for t in found), fixed=True)
        self._numbers(section, where, TextColumn("", tuple(clean_prose(i.why) for i in section.items), prose=True))

    def _figures(self, section: Figures) -> None:
        self._numbers(section, TextColumn("", tuple(clean(i.remark) for i in section.items), prose=True))

    def _numbers(self, section: Figures | Links, *beside: TextColumn) -> None:
        """Print figures with their names and further columns."""
        self._heading(section.title)
        names = TextColumn("", tuple(clean(i.label) for i in section.items))
        values = TextColumn("", tuple(format_cell(i.value, i.unit) for i in section.items), right=True)
        self._lines(layout_grid((names, values, *beside), self.width, header=False)[0])

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

    def _unavailable(self, why: Unavailable) -> None:
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

    def _lines(self, lines: list[Text], *, crop: bool = True) -> None:
        for line in lines:  # the lines are already laid out to the width
            line.rstrip()
            self.console.print(Text("  ") + line, no_wrap=True, overflow="ignore", crop=crop)

    def _prose(self, text: str, style: str = "", *, indent: int = 2, hang: int = 0) -> None:
        self._print(Text(text, style=style), indent, hang)

    def _print(self, text: Text, indent: int, hang: int = 0, label: str = "") -> None:
        """Print `text` wrapped, later lines indented by `hang` more, or all of them next to a
        label. A long name is broken, never truncated.
        """
        hang = hang or len(label)
        lines = text.wrap(self.console, min(self.console.width, _WIDEST_PROSE) - indent - hang, overflow="fold")
        for i, line in enumerate(lines):
            line.rstrip()
            self.console.print(Text(" " * indent + (" " * hang if i else label)) + line, no_wrap=True)

    def _blank(self) -> None:
        self.console.print()

# SPDX-License-Identifier: Apache-2.0
"""`Report`: the pages of one run, and what a reader must know before the first of them."""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.model.finding import Finding
from outpace.model.page import Page


@dataclass(frozen=True)
class Command:
    """A command line that is useful now.

    line: the command.
    what: what it does, in a few words.
    tool: id of the tool whose page of this report shows the same; "" for none.
    """

    line: str
    what: str
    tool: str = ""


@dataclass(frozen=True)
class Report:
    """All pages of one run.

    source: path or URL that was opened.
    headline: the one sentence a reader takes away.
    verdict: what bounds the program, in two words and its share ("Input-bound 82%"); "" where no
        step tells.
    warnings: sentences on what is missing or doubtful (a truncated file, dropped events).
    findings: findings of all pages, ranked, without duplicates.
    pages: one page per tool.
    struck: findings that are already in force or impossible here, with the reason.
    next: commands to go on with.
    advises: whether the report is meant to say what to change.
    """

    source: str
    headline: str
    warnings: tuple[str, ...]
    findings: tuple[Finding, ...]
    pages: tuple[Page, ...]
    struck: tuple[Finding, ...] = ()
    next: tuple[Command, ...] = ()
    advises: bool = True
    verdict: str = ""

    def page(self, tool: str) -> Page:
        """Return the page of the tool with the id `tool`. Raises KeyError where there is none."""
        for page in self.pages:
            if page.id == tool:
                return page
        raise KeyError(f"no page of a tool called {tool!r}")

    def references(self) -> frozenset[str]:
        """Return every table of the report as `tool.table`: the targets of evidence and links."""
        return frozenset(f"{page.id}.{table.name}" for page in self.pages for table in page.tables())

    def failed_pages(self) -> tuple[Page, ...]:
        """Return the pages of tools that raised."""
        return tuple(page for page in self.pages if page.failure is not None)

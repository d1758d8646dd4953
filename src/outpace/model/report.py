"""`Report`: the pages of one run, with what a reader must know before the first of them."""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.model.finding import Finding
from outpace.model.page import Page


@dataclass(frozen=True)
class Command:
    """A command that makes sense now, and what it does, in a few words."""

    line: str
    what: str


@dataclass(frozen=True)
class Report:
    """All pages of one run.

    `source` is the path or URL that was opened; `headline` is the one sentence a reader takes away;
    `warnings` say first what is missing or doubtful (a truncated file, dropped events); `findings`
    are those of all pages, ranked, without duplicates; `struck` are those that are in force already
    or impossible here, with the reason; `next` are the commands to go on with; `advises`: whether
    it is to say what to change.
    """

    source: str
    headline: str
    warnings: tuple[str, ...]
    findings: tuple[Finding, ...]
    pages: tuple[Page, ...]
    struck: tuple[Finding, ...] = ()
    next: tuple[Command, ...] = ()
    advises: bool = True

    def page(self, tool: str) -> Page:
        """The page of the tool with this id."""
        for page in self.pages:
            if page.id == tool:
                return page
        raise KeyError(f"no page of a tool called {tool!r}")

    def references(self) -> frozenset[str]:
        """What evidence and links can lead to: every table as `tool.table`."""
        return frozenset(f"{page.id}.{table.name}" for page in self.pages for table in page.tables())

    def failed_pages(self) -> tuple[Page, ...]:
        """The pages of tools that raised."""
        return tuple(page for page in self.pages if page.failure is not None)

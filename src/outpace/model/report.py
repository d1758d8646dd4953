"""`Report`: the pages of one run, with what a reader must know before the first of them."""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.model.finding import Finding
from outpace.model.page import Page


@dataclass(frozen=True)
class Report:
    """All pages of one run.

    `source` is the path or URL that was opened; `headline` is the one sentence a reader takes away; `warnings` say first what is
    missing or doubtful (a truncated file, dropped events); `findings` are those of all pages, ranked, without duplicates;
    `struck` are those that are in force already or impossible here, with the reason.
    `brief` are ids of pages of which a terminal shows only the headline, unless they are asked for; with `summary` it does so of all.
    """

    source: str
    headline: str
    warnings: tuple[str, ...]
    findings: tuple[Finding, ...]
    pages: tuple[Page, ...]
    struck: tuple[Finding, ...] = ()
    brief: frozenset[str] = frozenset()
    summary: bool = False

    def page(self, tool: str) -> Page:
        """The page of the tool with this id."""
        for page in self.pages:
            if page.id == tool:
                return page
        raise KeyError(f"no page of a tool called {tool!r}")

    def places(self) -> dict[str, str]:
        """Id of the first page that holds a table, by the table's name."""
        found: dict[str, str] = {}
        for page in self.pages:
            for table in page.tables():
                found.setdefault(table.name, page.id)
        return found

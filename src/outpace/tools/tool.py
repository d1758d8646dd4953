# SPDX-License-Identifier: Apache-2.0
"""The `Tool` object that describes one analysis."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from outpace._dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from outpace.model import Finding, Page, Section, Table
    from outpace.timeline import Run


@dataclass(frozen=True)
class Tool:
    """One analysis: a package (one folder) whose `__init__` defines `TOOL = Tool(__name__, ...)`.

    package: full name of the tool's package; its last part is the tool's `id` on the command line
        and in JSON
    title: heading of the tool's page
    question: the question that the page answers
    order: place in a report, smaller first
    has_availability: whether the folder has a module `availability`, whose `find_obstacle(run)`
        says first why there is no page; the page is then imported only where there is one
    of_models: whether the tool can also analyse a Keras model alone (`outpace.<id>(model)`)
    of_logs: whether the tool can also read a log alone, such as a program's output
    aliases: names of the tool in TensorBoard and XProf, accepted wherever a tool is asked for

    The folder's `page` module does the work and is imported on first use. Its `analyse` turns a run
    into a page (built with `TOOL.page(...)`) and may take keyword options, all with defaults; where
    `of_models` is set, its `of_model` turns a Keras model into a page; where `of_logs` is set, the
    `of_log` of its module `log_page` turns a log's text into one, or None. Command line, HTML,
    JSON, CSV and notebooks follow from this object alone. Another distribution adds a tool by an
    entry point of the group `outpace.tools` that names its `TOOL`.
    """

    package: str
    title: str
    question: str
    order: int
    has_availability: bool = False
    of_models: bool = False
    of_logs: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Name of the tool's folder, which identifies the tool."""
        return self.package.rpartition(".")[2]

    def page(
        self,
        headline: str = "",
        sections: Iterable[Section] = (),
        findings: Iterable[Finding] = (),
        hidden_tables: Iterable[Table] = (),
        **named: Any,
    ) -> Page:
        """Return a page of this tool; further arguments are those of `Page`."""
        from outpace.model import Page

        contents = (tuple(sections), tuple(findings), tuple(hidden_tables))
        return Page(self.id, self.title, self.question, headline, *contents, **named)

    def analyse(self, run: Run, **options: Any) -> Page:
        """Return the tool's page about a run."""
        obstacle = self._load("availability").find_obstacle(run) if self.has_availability else None
        return self.page(unavailable=obstacle) if obstacle else cast("Page", self.load().analyse(run, **options))

    def of_model(self, model: Any, **options: Any) -> Page:
        """Return the tool's page about a Keras model; only for tools with `of_models`."""
        return cast("Page", self.load().of_model(model, **options))

    def of_log(self, text: str, program: bytes = b"") -> Page | None:
        """Return the tool's page about a log, and the compiled program that ran (`HloProto`) where
        that is known; None where the log says nothing about its question, or where the tool reads
        none.
        """
        return cast("Page | None", self._load("log_page").of_log(text, program)) if self.of_logs else None

    def load(self) -> Any:
        """Import and return the tool's `page` module; the import is what takes time."""
        return self._load("page")

    def load_first(self) -> Any:
        """Import and return the module that is asked first about a run."""
        return self._load("availability" if self.has_availability else "page")

    def _load(self, module: str) -> Any:
        return importlib.import_module(f"{self.package}.{module}")

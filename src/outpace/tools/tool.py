"""What a tool is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from outpace._dataclass import dataclass

if TYPE_CHECKING:
    from outpace.model import Page
    from outpace.timeline import Run


@dataclass(frozen=True)
class Tool:
    """One analysis: a package (one folder) whose `__init__` defines `TOOL = Tool(__name__, ...)`.

    The folder's name is the tool's `id`, on the command line and in JSON; `aliases` are names that
    others have for it (TensorBoard, XProf) and that mean it where a tool is asked for; `order` is
    its place in a report (smaller first). The folder's `page` module holds the work and is loaded
    when it is asked for: its `analyse` turns a run into a page (`TOOL.page(...)`) and may take
    options by name, all with defaults; where a tool also speaks `of_models`, its `of_model` makes a
    page of a Keras model alone (`outpace.<id>(model)`). Command line, HTML, JSON, CSV and notebooks
    follow from this object alone. Another distribution adds a tool by an entry point of the group
    `outpace.tools` that names its `TOOL`.
    """

    package: str
    title: str
    question: str
    order: int
    of_models: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Name of the tool's folder."""
        return self.package.rpartition(".")[2]

    def page(self, *values: Any, **named: Any) -> Page:
        """A page of this tool: what `Page` takes behind its id, title and question."""
        from outpace.model import Page

        return Page(self.id, self.title, self.question, *values, **named)

    def analyse(self, run: Run, **options: Any) -> Page:
        """What the tool says of a run."""
        return cast("Page", self.load().analyse(run, **options))

    def of_model(self, model: Any, **options: Any) -> Page:
        """What the tool says of a Keras model, if it speaks `of_models`."""
        return cast("Page", self.load().of_model(model, **options))

    def load(self) -> Any:
        """The module that does the work; its import is what takes time."""
        return importlib.import_module(f"{self.package}.page")

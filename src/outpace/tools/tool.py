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
    """One analysis. A tool is a package below `outpace.tools` (one folder) whose `__init__` defines `TOOL`.

    `id` is the folder's name, and names the tool on the command line and in JSON; `order` is its place in a report (smaller first). Of a
    `brief` tool, a terminal report of all tools shows the headline only. The folder's `page` module holds the work and is loaded when it
    is asked for: its `analyse` turns a run into a page and may take options by name, all with defaults; where a tool also speaks
    `of_models`, its `of_model` makes a page of a Keras model alone (`outpace.<id>(model)`).
    Command line, HTML, JSON, CSV and notebooks follow from this object alone.
    """

    id: str
    title: str
    question: str
    order: int
    brief: bool = False
    of_models: bool = False

    def analyse(self, run: Run, **options: Any) -> Page:
        """What the tool says of a run."""
        return cast("Page", self.load().analyse(run, **options))

    def of_model(self, model: Any, **options: Any) -> Page:
        """What the tool says of a Keras model, if it speaks `of_models`."""
        return cast("Page", self.load().of_model(model, **options))

    def load(self) -> Any:
        """The module that does the work; its import is what takes time."""
        return importlib.import_module(f"outpace.tools.{self.id}.page")

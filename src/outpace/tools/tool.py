"""What a tool is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from outpace.model import Page


@dataclass(frozen=True)
class Tool:
    """One analysis. A tool is a package below `outpace.tools` (one folder) whose `__init__` defines `TOOL`.

    `id` names it on the command line and in JSON; `order` is its place in a report (smaller first); `analyse` turns a run into a page and
    may take options by name, all with defaults. Of a `brief` tool, a terminal report of all tools shows the headline only. `of_model` makes
    a page of a Keras model alone (`outpace.<id>(model)`), where that makes sense.
    Command line, HTML, JSON, CSV and notebooks follow from this object alone.
    """

    id: str
    title: str
    question: str
    order: int
    analyse: Callable[..., Page]
    brief: bool = False
    of_model: Callable[..., Page] | None = None

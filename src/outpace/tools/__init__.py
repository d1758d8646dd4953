"""The analysis tools, one folder each. They are discovered, never named elsewhere."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from outpace.model import UsageError
from outpace.model.text import format_suggestion
from outpace.tools.tool import Tool

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["ENTRY_POINTS", "Tool", "discover_tools", "find_tool", "require_tool"]

ENTRY_POINTS = "outpace.tools"
"""Group of the entry points by which other distributions add tools."""

_LAST = 1000  # where in a report a tool stands that cannot say it itself


def discover_tools() -> tuple[Tool, ...]:
    """All tools, in the order in which a report shows them. Of two with one id Outpace's own
    stands, and the first of others.
    """
    found: dict[str, Tool] = {}
    for tool in (*_own(), *_added()):
        found.setdefault(tool.id, tool)
    return tuple(sorted(found.values(), key=lambda t: (t.order, t.id)))


def find_tool(name: str) -> Tool | None:
    """The tool with this id, or this name in TensorBoard or XProf; None where there is none."""
    tools = {t.id: t for t in discover_tools()}
    return tools.get(name) or next((tool for tool in tools.values() if name.rstrip("@^") in tool.aliases), None)


def require_tool(tool_id: str) -> Tool:
    """The same; UsageError, which names those there are, where there is none."""
    tool = find_tool(tool_id)
    if tool is None:
        tools = [t.id for t in discover_tools()]
        trace = " 'outpace trace' shows the timeline." if "trace" in tool_id else ""
        raise UsageError(
            f"There is no tool '{tool_id}'.{trace or format_suggestion(tool_id, tools)} There are: {', '.join(tools)}."
        )
    return tool


def _own() -> Iterator[Tool]:
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            package = importlib.import_module(f"{__name__}.{module.name}")
            if isinstance(tool := getattr(package, "TOOL", None), Tool):
                yield tool


@functools.cache
def _added() -> tuple[Tool, ...]:
    """Tools of other distributions, looked for once."""
    if not _declared():
        return ()
    from importlib.metadata import entry_points  # brings e-mail and zip along: 2 MB and 30 ms that few reports need

    return tuple(_tool_of(point) for point in entry_points(group=ENTRY_POINTS))


def _declared() -> bool:
    """Whether anything that is installed may declare a tool."""
    files = (file for folder in sys.path for file in Path(folder or ".").glob("*-info/entry_points.txt"))
    return any(ENTRY_POINTS.encode() in file.read_bytes() for file in files)


def _tool_of(point: EntryPoint) -> Tool:
    """The tool that an entry point names; where that fails, one whose page will say why."""
    try:
        tool = point.load()
    except Exception:
        return Tool(point.module, point.name, f"Added by the entry point {point.value}, which cannot be loaded.", _LAST)
    if isinstance(tool, Tool):
        return tool
    return Tool(point.module, point.name, f"Added by the entry point {point.value}, which is no outpace Tool.", _LAST)

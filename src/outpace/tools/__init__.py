# SPDX-License-Identifier: Apache-2.0
"""The analysis tools, one folder each; they are discovered and listed nowhere."""

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
"""Group of the entry points with which other distributions add tools."""

_LAST = 1000  # `order` of an added tool that cannot be loaded: the end of the report


@functools.cache
def discover_tools() -> tuple[Tool, ...]:
    """Return all tools in the order in which a report shows them.

    Where two tools have the same id, Outpace's own tool wins; among tools of other distributions,
    the first one found does.
    """
    tools: dict[str, Tool] = {}
    for tool in (*_iter_bundled(), *_load_added()):
        tools.setdefault(tool.id, tool)
    return tuple(sorted(tools.values(), key=lambda tool: (tool.order, tool.id)))


def find_tool(name: str) -> Tool | None:
    """Return the tool with this id or alias (its name in TensorBoard or XProf); None where there is
    none.
    """
    tools = {t.id: t for t in discover_tools()}
    return tools.get(name) or next((tool for tool in tools.values() if name.rstrip("@^") in tool.aliases), None)


def require_tool(tool_id: str) -> Tool:
    """Return the tool with this id or alias.

    Raises UsageError, which lists the existing tools, where there is none.
    """
    tool = find_tool(tool_id)
    if tool is None:
        tools = [t.id for t in discover_tools()]
        trace = " 'outpace trace' shows the timeline." if "trace" in tool_id else ""
        raise UsageError(
            f"There is no tool '{tool_id}'.{trace or format_suggestion(tool_id, tools)} There are: {', '.join(tools)}."
        )
    return tool


def _iter_bundled() -> Iterator[Tool]:
    """Yield the tools that Outpace itself brings."""
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            package = importlib.import_module(f"{__name__}.{module.name}")
            if isinstance(tool := getattr(package, "TOOL", None), Tool):
                yield tool


def _load_added() -> tuple[Tool, ...]:
    """Return the tools of other distributions."""
    if not _may_have_added():
        return ()
    # Imported late: it loads e-mail and zip modules, 2 MB and 30 ms that few reports need.
    from importlib.metadata import entry_points

    return tuple(_load_tool(point) for point in entry_points(group=ENTRY_POINTS))


def _may_have_added() -> bool:
    """Whether an installed distribution may declare a tool, judged by its `entry_points.txt`."""
    files = (file for folder in sys.path for file in Path(folder or ".").glob("*-info/entry_points.txt"))
    return any(ENTRY_POINTS.encode() in file.read_bytes() for file in files)


def _load_tool(point: EntryPoint) -> Tool:
    """Return the tool that an entry point names.

    Where it cannot be loaded, or is not a `Tool`, return a tool whose page reports the failure.
    """
    try:
        tool = point.load()
    except Exception:
        return Tool(point.module, point.name, f"Added by the entry point {point.value}, which cannot be loaded.", _LAST)
    if isinstance(tool, Tool):
        return tool
    return Tool(point.module, point.name, f"Added by the entry point {point.value}, which is no outpace Tool.", _LAST)

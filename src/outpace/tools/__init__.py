"""The analysis tools, one folder each. They are discovered, never named elsewhere."""

from __future__ import annotations

import importlib
import pkgutil

from outpace.model import UsageError
from outpace.tools.tool import Tool

__all__ = ["Tool", "discover", "find"]


def discover() -> tuple[Tool, ...]:
    """All tools, in the order in which a report shows them."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            package = importlib.import_module(f"{__name__}.{module.name}")
            if isinstance(tool := getattr(package, "TOOL", None), Tool):
                found.append(tool)
    return tuple(sorted(found, key=lambda t: (t.order, t.id)))


def find(tool_id: str) -> Tool:
    """The tool with this id; UsageError names the ones there are."""
    tools = {t.id: t for t in discover()}
    if tool_id not in tools:
        raise UsageError(f"There is no tool '{tool_id}'. There are: {', '.join(tools)}.")
    return tools[tool_id]

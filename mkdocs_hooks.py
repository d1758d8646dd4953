"""The documentation's pages of tools: each tool's README and the tables that it declares, so that a new folder is a new page."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import outpace.tools
from outpace.model import Field
from outpace.tools import Tool, discover

HOME = Path(outpace.tools.__file__).parent


def on_files(files: Files, config: Any) -> Files:
    """Add one page per tool."""
    for tool in discover():
        files.append(File.generated(config, f"tools/{tool.id}.md", content=page(tool)))
    return files


def page(tool: Tool) -> str:
    """A tool's README, followed by what every column of its tables means."""
    text = (HOME / tool.id / "README.md").read_text(encoding="utf-8")
    schema = importlib.import_module(f"{HOME.parent.name}.tools.{tool.id}.schema")
    for name, fields in vars(schema).items():
        if (
            isinstance(fields, tuple)
            and fields
            and all(isinstance(field, Field) for field in fields)
            and not name.startswith("_")
        ):
            rows = "\n".join(f"| `{f.name}` | {f.unit.value or 'none'} | {f.meaning} |" for f in fields)
            text += f"\n## Columns: {name.lower()}\n\n| column | unit | meaning |\n|---|---|---|\n{rows}\n"
    return text

# SPDX-License-Identifier: Apache-2.0
"""`outpace tools`: list the analysis tools."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer


def tools(json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False) -> None:
    """List the analysis tools and the question that each answers."""
    from outpace import api

    entries = api.tools()
    if json:
        typer.echo(
            jsonlib.dumps([{"id": entry.id, "title": entry.title, "question": entry.question} for entry in entries], indent=1)
        )
        return
    width = max(len(entry.id) for entry in entries)
    for tool in entries:
        typer.echo(f"{tool.id:<{width}}  {tool.question}")

# SPDX-License-Identifier: Apache-2.0
"""`outpace tools`: list the analysis tools."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer


def tools(json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False) -> None:
    """List the analysis tools and the question that each answers."""
    from outpace import api

    found = api.tools()
    if json:
        typer.echo(jsonlib.dumps([{"id": t.id, "title": t.title, "question": t.question} for t in found], indent=1))
        return
    width = max(len(t.id) for t in found)
    for tool in found:
        typer.echo(f"{tool.id:<{width}}  {tool.question}")

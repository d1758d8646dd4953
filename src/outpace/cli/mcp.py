# SPDX-License-Identifier: Apache-2.0
"""`outpace mcp`: serves the runs of some folders to programs by the Model Context Protocol."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def mcp(
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FOLDER]...", help="Folders with runs or training scripts; nothing outside of them is opened."),
    ] = None,
    run_scripts: Annotated[
        bool, typer.Option("--run-scripts", help="Allow dry runs of tune, which start a script of the folders.")
    ] = False,
    skill: Annotated[bool, typer.Option("--skill", help="Print the skill file, SKILL.md, and exit.")] = False,
) -> None:
    """Answer questions about runs by the Model Context Protocol (MCP), on standard input and
    output: a client starts this command.

    Read-only: runs, verdict, tables, table, explain, compare, lint, tune_dry_run. An answer has at
    most 2,000 tokens, and says how to ask for the rest; what cannot be answered says why. Needs the
    SDK: pip install 'outpace[mcp]'.
    """
    from outpace.mcp import skill as skill_file
    from outpace.model import UsageError

    if skill:
        sys.stdout.write(skill_file())
        return
    if not folders:
        raise UsageError("Give the folders that may be asked about: 'outpace mcp LOGDIR'.")
    from outpace.mcp.dry_run import run_dry_run
    from outpace.mcp.folders import ServedFolders
    from outpace.mcp.server import build_server

    build_server(ServedFolders(folders), run_dry_run if run_scripts else None).run("stdio")

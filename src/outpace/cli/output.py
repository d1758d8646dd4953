"""What the commands have in common: showing a profile in the forms that the user asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from outpace.api import Profile


def show(
    profile: Profile,
    *,
    only: Sequence[str] | None = None,
    html: Path | None = None,
    csv: Path | None = None,
    json: bool = False,
    width: int | None = None,
    color: bool | None = None,
) -> None:
    """Write the files that were asked for and print the report (JSON instead, when asked)."""
    if json:
        from outpace.report import json_

        sys.stdout.write(json_.render(profile.report(only)) + "\n")
    else:
        from outpace.report import terminal

        terminal.print_report(profile.report(only), width=width, color=color, tools=only)
    if csv is not None:
        from outpace.report import csv_

        written = csv_.write(profile.report(only), csv)
        typer.echo(f"{len(written)} tables are in {csv}", err=True)
    if html is not None:
        typer.echo(f"The HTML report is {profile.html(html, only)}", err=True)

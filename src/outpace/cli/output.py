"""What the commands have in common: showing a profile in the forms that the user asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from outpace.api import Profile
from outpace.model import Report


def show(
    profile: Profile,
    *,
    only: Sequence[str] | None = None,
    html: Path | None = None,
    csv: Path | None = None,
    json: bool = False,
    width: int | None = None,
    color: bool | None = None,
    summary: bool = False,
) -> None:
    """Write the files that were asked for and print the report (JSON instead, when asked); of a `summary`, the headlines of all pages."""
    say(replace(profile.report(only), summary=summary), single=only is not None, json=json, width=width, color=color)
    if csv is not None:
        from outpace.report import csv_

        written = csv_.write(profile.report(only), csv)
        typer.echo(f"{len(written)} tables are in {csv}", err=True)
    if html is not None:
        typer.echo(f"The HTML report is {profile.html(html, only)}", err=True)


def say(
    report: Report, *, single: bool = False, json: bool = False, width: int | None = None, color: bool | None = None
) -> None:
    """Print a report (JSON instead, when asked); `single` leaves out what introduces a whole report."""
    if json:
        from outpace.report import json_

        sys.stdout.write(json_.render(report) + "\n")
    else:
        from outpace.report import terminal

        terminal.print_report(report, width=width, color=color, tools=[p.id for p in report.pages] if single else None)

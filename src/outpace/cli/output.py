# SPDX-License-Identifier: Apache-2.0
"""Prints and writes reports in the formats that the user requested; shared by several commands."""

from __future__ import annotations

import contextlib
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from outpace.cli.console import name_option, print_note
from outpace.model import CaptureError, Report, ToolError
from outpace.model.units import format_count


def show_report(
    report: Report,
    *,
    single: bool = False,
    tool: str = "",
    details: bool = False,
    markdown: bool = False,
    html: Path | None = None,
    csv: Path | None = None,
    json: bool = False,
    width: int | None = None,
    color: bool | None = None,
) -> None:
    """Write the requested files, print the report (or JSON), and print the files' paths.

    The files come first, because a reader of the text may close the pipe, as `head` does. `single`
    shows the pages instead of the first screen, `tool` that of one tool; `details` shows them after
    it. Raises ToolError at the end when a tool failed.
    """
    notes = []
    if csv is not None:
        from outpace.report import csv_

        with name_option("--csv"):
            notes.append(f"{format_count(len(csv_.write(report, csv)), 'table is', 'tables are')} in {csv}")
    if html is not None:
        from outpace.report import html as html_

        with name_option("--html"):
            notes.append(f"The HTML report is {html_.write(report, html)}")
    print_report(report, single=single, tool=tool, details=details, markdown=markdown, json=json, width=width, color=color)
    for line in notes:
        print_note(line)
    if failed := report.failed_pages():
        tools_of: dict[str, list[str]] = {}
        for page in failed:
            tools_of.setdefault(page.failure.error if page.failure else "", []).append(page.id)
        which = "; ".join(f"{', '.join(tools)}: {error}" for error, tools in tools_of.items())
        raise ToolError(
            f"{len(failed)} of {len(report.pages)} tools failed ({which}). What the others say stands; --json has the traces."
        )


def show_capture(folder: str, *, require_steps: bool = False, redact: bool = False, **wanted: Any) -> None:
    """Show the report of a run that was just captured. Raises CaptureError afterwards where
    `require_steps` is set and no step is whole.
    """
    from outpace import api

    profile = api.open(folder, redact=redact)
    show_report(profile.report(), **wanted)
    if require_steps and not any(host.steps.complete.any() for host in profile.run.hosts):
        raise CaptureError("The capture holds no whole step. What was recorded is in the report.")


def print_report(
    report: Report,
    *,
    single: bool = False,
    tool: str = "",
    details: bool = False,
    markdown: bool = False,
    json: bool = False,
    width: int | None = None,
    color: bool | None = None,
) -> None:
    """Print a report as text, JSON or Markdown; see `show_report`."""
    if json:
        from outpace.report import json_

        ascii_only = "utf" not in (sys.stdout.encoding or "utf").lower()
        sys.stdout.write(json_.render(report, ascii_only=ascii_only) + "\n")
    elif markdown:
        from outpace.report import markdown as markdown_

        sys.stdout.write(markdown_.render(report))
    else:
        from outpace.report import terminal

        tools = [tool] if tool else [page.id for page in report.pages] if single else None
        terminal.print_report(_to_type(report), width=width, color=color, tools=tools, details=details)


def _to_type(report: Report) -> Report:
    """Return the report with paths and commands shortened to what can be typed in the current
    folder. Stored reports keep the whole paths, because they are read elsewhere.
    """
    from outpace.store.logdir import shorten_path
    from outpace.store.tree import relative_path

    def short(line: str) -> str:
        with contextlib.suppress(ValueError):  # the contents of a stored report are not validated
            return shlex.join(shorten_path(word) if "/" in word else word for word in shlex.split(line))
        return line

    return replace(
        report,
        source=relative_path(report.source),
        next=tuple(replace(command, line=short(command.line)) for command in report.next),
    )

# SPDX-License-Identifier: Apache-2.0
"""`outpace report`: analyses an existing profile."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outpace.cli.console import print_note
from outpace.cli.options import Color, Memory, Redact, Width, Window, build_open_options
from outpace.cli.process import configure_process, run_in_background

if TYPE_CHECKING:
    from outpace.api import Profile
    from outpace.model import Report

_ANALYSIS = 2.0  # ratio of analysis time to reading time (measured: 1.5 to 2, for 5 to 74 million events)
REPORT_SUFFIX = ".json"
"""File name suffix of a report that '--json' printed."""


def report(
    path: Annotated[
        str,
        typer.Argument(
            help="A *.xplane.pb file, a run folder, or a log directory (its newest run), local or a URL; or a report that --json printed."
        ),
    ],
    tool: Annotated[list[str] | None, typer.Option(help="Show only this tool; can be repeated. See 'outpace tools'.")] = None,
    host: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this host of the run; can be repeated.")] = None,
    device: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this device, as in /device:GPU:0; can be repeated.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option(metavar="FIRST:LAST", help="Only these steps, both included: 3:5, 3: or 3.")
    ] = None,
    window: Window = None,
    details: Annotated[bool, typer.Option("--details", help="Show every tool's page below the first screen.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the first screen as Markdown, to paste into an issue.")
    ] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the report as one offline HTML file.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every table as a CSV file.")] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON instead of text; 'outpace report FILE.json' reads it again."),
    ] = False,
    redact: Redact = False,
    memory: Memory = None,
    width: Width = None,
    color: Color = None,
) -> None:
    """Analyse a profile: identify the bottleneck, show the evidence, and rank the fixes.

    Reads profiles of TensorFlow 2.4 to 2.21 and JAX, gzipped or not, of one host or many. Nothing
    is written beside the profile.
    """
    configure_process()
    from outpace import api
    from outpace.cli.output import show_report
    from outpace.cli.progress import show_reading

    began = time.monotonic()
    # Most of the work in the background is the core's, without Python.
    with run_in_background(lambda: api.load(tool, "json_" if json else "terminal")), show_reading(path):
        profile = _open_profile(path, host, device, steps, window, redact=redact, memory=memory)
    report = api.stored(path, tool) if profile is None else _analyse(profile, tool, time.monotonic() - began)
    show_report(
        report,
        single=tool is not None,
        details=details,
        markdown=markdown,
        html=html,
        csv=csv,
        json=json,
        width=width,
        color=color,
    )


def _analyse(profile: Profile, tools: list[str] | None, reading: float) -> Report:
    """Return the report of a profile, with a progress line; reading the profile took the stated
    number of seconds.
    """
    from outpace.cli.progress import format_remaining, show_progress
    from outpace.model.units import format_count

    events = format_count(profile.run.events, "event")
    with show_progress(lambda passed: f"{events}: {profile.made}, {format_remaining(passed, _ANALYSIS * reading)}"):
        return profile.report(tools)


def _open_profile(
    path: str,
    hosts: list[str] | None,
    devices: list[str] | None,
    steps: str | None,
    window: str | None,
    *,
    redact: bool,
    memory: str | None,
) -> Profile | None:
    """Return the profile, or the requested part of it; None for a stored report."""
    from outpace import api
    from outpace.model import UsageError
    from outpace.model.units import format_count
    from outpace.timeline.run_part import parse_step_range

    if path.endswith(REPORT_SUFFIX) and api.is_stored(path):
        if hosts or devices or steps or window:
            raise UsageError("A stored report cannot be divided: give the profile with --host, --device, --steps or --window.")
        if redact:
            raise UsageError(
                "A stored report cannot be redacted: give the profile with --redact, and store the report of that."
            )
        return None
    profile = api.open(path, redact=redact, **build_open_options(window, memory))
    profile.run.prepare()
    if profile.older:
        runs = format_count(profile.older, "older run")
        place = profile.run.source if redact else path
        print_note(f"Note: {place} also holds {runs}; this is the newest. 'outpace ui {shlex.quote(place)}' shows all.")
    return profile.part(hosts=hosts or (), devices=devices or (), steps=parse_step_range(steps, "--steps") if steps else None)

# SPDX-License-Identifier: Apache-2.0
"""`outpace report`: analyses an existing profile."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
            help="A *.xplane.pb file, a run folder, or a log directory (its newest run), local or a URL; a report that --json printed; "
            "or the output of a program that ran out of memory."
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

    log = api.report_of_log(path)
    if log is not None:
        _require_whole("A log", bool(host or device or steps or window), redact=redact)
        log = api.select_pages(log, path, tool)
    renderer = "json_" if json else "terminal"
    show_report(
        log or _read_report(path, tool, renderer, host, device, steps, window, redact=redact, memory=memory),
        single=tool is not None,
        details=details or log is not None,
        markdown=markdown,
        html=html,
        csv=csv,
        json=json,
        width=width,
        color=color,
    )


def _read_report(path: str, tools: list[str] | None, renderer: str, *part: Any, redact: bool, memory: str | None) -> Report:
    """Return the report of a profile, of a part of it, or a stored one. part: hosts, devices, steps
    and window, as `_open_profile` takes them.
    """
    from outpace import api
    from outpace.cli.progress import show_reading

    began = time.monotonic()
    # Most of the work in the background is the core's, without Python.
    with run_in_background(lambda: api.load(tools, renderer)), show_reading(path):
        profile = _open_profile(path, *part, redact=redact, memory=memory)
    return api.stored(path, tools) if profile is None else _analyse(profile, tools, time.monotonic() - began)


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
    from outpace.model.units import format_count
    from outpace.timeline.run_part import parse_step_range

    if path.endswith(REPORT_SUFFIX) and api.is_stored(path):
        _require_whole("A stored report", bool(hosts or devices or steps or window), redact=redact)
        return None
    profile = api.open(path, redact=redact, **build_open_options(window, memory))
    profile.run.prepare()
    if profile.older:
        runs = format_count(profile.older, "older run")
        place = profile.run.source if redact else path
        print_note(f"Note: {place} also holds {runs}; this is the newest. 'outpace ui {shlex.quote(place)}' shows all.")
    return profile.part(hosts=hosts or (), devices=devices or (), steps=parse_step_range(steps, "--steps") if steps else None)


def _require_whole(what: str, is_divided: bool, *, redact: bool) -> None:
    """Raise UsageError where a part of something is asked for, or other names, that only a profile
    can give.
    """
    from outpace.model import UsageError

    if is_divided:
        raise UsageError(f"{what} cannot be divided: give the profile with --host, --device, --steps or --window.")
    if redact:
        raise UsageError(f"{what} cannot be redacted: give the profile with --redact, and store the report of that.")

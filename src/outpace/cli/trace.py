# SPDX-License-Identifier: Apache-2.0
"""`outpace trace`: shows the timeline in a viewer or writes it as a file."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from outpace.cli.console import name_option, print_note
from outpace.cli.options import Memory, Redact, build_open_options
from outpace.cli.process import configure_process, require_posix
from outpace.model.units import format_count

if TYPE_CHECKING:
    from outpace.api import Profile
    from outpace.viewer import ExportSummary, Selection

_Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the trace to this file (compressed when it ends in .gz) and open no viewer."),
]
_Form = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="perfetto|json",
        help="Perfetto's own format, or Chrome's Trace Event JSON (several times the size).",
    ),
]
_IDLE = 1800.0  # seconds without a request after which the viewer's server ends
_Window = Annotated[
    str | None,
    typer.Option(metavar="BEGIN:END", help="Only this time, counted from the trace's beginning: 1.2s:1.5s, 800ms: or :2s."),
]
_Steps = Annotated[
    str | None, typer.Option(metavar="FIRST:LAST", help="Only the time of these steps, both included: 3:5, 3: or 3.")
]
_Track = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Only tracks whose SECTION/TRACK matches: 'GPU', 'Host.*/python', '/Steps$'."),
]
_Arguments = Annotated[
    str,
    typer.Option(
        metavar="all|useful|none",
        help="What to keep about each event besides name and time; 'useful' leaves out the IDs that link events.",
    ),
]


def trace(
    path: Annotated[
        str, typer.Argument(help="A *.xplane.pb file, a run folder, or a log directory (its newest run); local or a URL.")
    ],
    out: _Out = None,
    form: _Form = "perfetto",
    window: _Window = None,
    steps: _Steps = None,
    track: _Track = None,
    arguments: _Arguments = "all",
    redact: Redact = False,
    memory: Memory = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the viewer in the browser, or only print its address.")
    ] = True,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the viewer on this machine; any free one by default.")
    ] = 0,
) -> None:
    """Look at a profile's timeline: every event of every thread and device, steps, memory, and
    arrows from launch to kernel.

    Opens Perfetto's viewer, served from this machine and cut off from every other: nothing of the
    profile leaves it. End it with Ctrl-C. Keys in the viewer: W and S zoom, A and D move, M marks
    the selected slice, ? lists all; a click on a slice shows its arguments.

    With --out it writes the trace instead, for ui.perfetto.dev, for SQL with Perfetto's trace
    processor, or (--format json) for chrome://tracing. All hosts of a run stand in one trace, on
    one clock. Nothing is written beside the profile.
    """
    configure_process()
    from outpace.cli.progress import show_progress
    from outpace.model import UsageError
    from outpace.viewer import Arguments, parse_selection

    for name, value, choices in (("--format", form, ("perfetto", "json")), ("--arguments", arguments, tuple(Arguments))):
        if value not in choices:
            raise UsageError(
                f"{name} {value!r} is unknown: give {' or '.join(str(getattr(choice, 'value', choice)) for choice in choices)}."
            )
    selection = parse_selection(window, steps, track, Arguments(arguments))
    if out is not None:
        place = "" if out.absolute().parent.is_dir() else ", in a new folder"
        if form == "perfetto" and out.name.endswith((".json", ".json.gz")):
            form = "json"
        profile = _open_profile(path, redact, window, memory)
        with show_progress(lambda passed: f"Writing {out}: {passed:.0f} s"):
            written = _to_file(profile, out, form, selection)
        _tell(profile, written, f"The trace is {out} ({out.stat().st_size / 1e6:,.1f} MB{place})")
    else:
        require_posix("The viewer ('outpace trace' without --out)")
        _view(_open_profile(path, redact, window, memory), form, selection, browser, port)


def _open_profile(path: str, redact: bool, window: str | None, memory: str | None) -> Profile:
    """Return the profile; of one host with many events, only the events that reach into the
    window.
    """
    from outpace import api
    from outpace.cli.progress import show_reading

    options = build_open_options(window, memory)
    if options["window"] is not None:
        options["window"] = replace(options["window"], include_overlapping=True, optional=True)
    with show_reading(path):
        return api.open(path, redact=redact, **options)


def _write(profile: Profile, file: IO[bytes], form: str, selection: Selection) -> ExportSummary:
    """Write the trace to an open file."""
    from outpace.trace.export import ExportFormat
    from outpace.viewer import write_trace

    return write_trace(profile.run, file.fileno(), ExportFormat[form.upper()], selection)


def _to_file(profile: Profile, target: Path, form: str, selection: Selection) -> ExportSummary:
    """Write the trace to a path, compressed where the path ends in `.gz`."""
    from outpace.model.files import write_atomically
    from outpace.viewer.gzip_pipe import open_gzip_pipe

    with name_option("--out"), write_atomically(target, "The trace") as file:
        if target.suffix != ".gz":
            return _write(profile, file, form, selection)
        with open_gzip_pipe(file) as pipe:
            return _write(profile, pipe, form, selection)


def _view(profile: Profile, form: str, selection: Selection, browser: bool, port: int) -> None:
    """Serve the viewer with the trace until it is ended."""
    from outpace.cli.ui import run_server
    from outpace.model import OutputError
    from outpace.ui.server import Server
    from outpace.ui.timeline import TraceSite
    from outpace.viewer.perfetto import find_interface
    from outpace.viewer.view_range import find_selection_view

    folder = find_interface()
    with tempfile.TemporaryFile() as file:
        try:
            written = _write(profile, file, form, selection)
        except OSError as error:
            raise OutputError(
                f"The trace cannot be written to {tempfile.gettempdir()}: {error.strerror or error}. Set TMPDIR to another place."
            ) from error
        view_range = find_selection_view(profile.run, selection)
        server = Server(TraceSite(folder, file, view_range).answer, port)
        _tell(profile, written, f"The viewer is at {server.address} (end it with Ctrl-C)")
        run_server(server, browser, _IDLE)


def _tell(profile: Profile, written: ExportSummary, place: str) -> None:
    """Print what the trace contains, what the profile lacks, and the path of the trace."""
    for warning in profile.warnings:
        print_note(f"Note: {warning}")
    parts = [
        f"{written.events:,} of {profile.run.events:,} events",
        f"{format_count(written.steps, 'step')}",
    ]
    parts += [
        f"{count:,} {what}"
        for count, what in ((written.flows, "launch arrows"), (written.counter_values, "memory values"))
        if count
    ]
    parts += [f"{format_count(written.stages, 'call')} of tf.data stages by source line"] if written.stages else []
    print_note(f"{', '.join(parts)}.")
    print_note(place)
    if written.slices == 0:
        print_note("The trace is empty: nothing was recorded, or nothing of it was selected (--window, --steps, --track).")

# SPDX-License-Identifier: Apache-2.0
"""`outpace profile`: runs a training script, captures a window of its steps, and reports where
their time goes.
"""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outpace.capture.options import DEFAULT_LOGDIR
from outpace.cli.console import print_note
from outpace.cli.options import (
    Color,
    DeviceLevel,
    HostLevel,
    Module,
    PythonLevel,
    Redact,
    Script,
    ScriptArgs,
    ShowSecrets,
    Width,
    check_script_args,
)

if TYPE_CHECKING:
    from outpace.capture import CaptureOptions, CaptureResult

_Delay = Annotated[float, typer.Option(help="Seconds from the framework's import to a capture by --seconds alone.")]
_ReportFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The HTML report; beside the log directory's runs by default.")
]


class AfterCapture(str, Enum):
    """What happens to the script after the capture."""

    STOP = "stop"
    CONTINUE = "continue"


_Then = Annotated[AfterCapture, typer.Option(help="After the capture, stop the script or let it train on.")]


class Switch(str, Enum):
    """Whether a feature is used."""

    ON = "on"
    OFF = "off"


_LogDir = Annotated[str, typer.Option(help="TensorBoard log directory to write the profile to; local or a URL.")]


_CommandBuffers = Annotated[
    Switch,
    typer.Option(help="off: XLA uses no CUDA graphs, so that a training in another thread survives its capture on a GPU."),
]


def profile(
    context: typer.Context,
    script: Script,
    args: ScriptArgs = None,
    module: Module = False,
    logdir: _LogDir = DEFAULT_LOGDIR,
    warmup: Annotated[int, typer.Option(help="Steps to run before the capture.")] = 10,
    steps: Annotated[
        int | None, typer.Option(help="Steps to capture (default: 20, and at least two seconds; no default with --seconds).")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds to capture at most; also works where no steps can be seen.")
    ] = None,
    delay: _Delay = 10.0,
    then: _Then = AfterCapture.STOP,
    startup: Annotated[bool, typer.Option("--startup", help="Show what happens before the first steady step.")] = False,
    host_level: HostLevel = 2,
    python_level: PythonLevel = 0,
    device_level: DeviceLevel = 1,
    command_buffers: _CommandBuffers = Switch.ON,
    labels: Annotated[bool, typer.Option("--labels/--no-labels", help="Name tf.data stages after their source lines.")] = True,
    html: _ReportFile = None,
    csv: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every table as a CSV file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    redact: Redact = False,
    show_secrets: ShowSecrets = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Run a training script, capture some of its steps, and explain where their time goes.

    The script needs no change. Keras fit, evaluate and predict, tf.function loops and eager loops
    are recognised automatically; the capture starts after a warm-up. Then the script is stopped,
    and none of its code runs any more: --then continue lets it train on. Exit code: the script's
    own when the script fails, otherwise Outpace's (docs/exit-codes.md).
    """
    from outpace.capture import CaptureOptions

    options = CaptureOptions.for_command(
        steps,
        seconds,
        logdir=logdir,
        warmup=warmup,
        delay=delay,
        stop=then is AfterCapture.STOP,
        host_level=host_level,
        python_level=python_level,
        device_level=device_level,
        label=labels,
        module=module,
        secrets=show_secrets,
        command_buffers=command_buffers is Switch.ON,
    )
    result = _run_captured(script, check_script_args(context, args), options)
    if result.run is not None:
        html, strict = html or _report_file(logdir, result.run), seconds is None and not result.exit_code
        wanted = {"html": html, "csv": csv, "json": json, "width": width, "color": color}
        _show(result.run, startup, require_steps=strict, redact=redact, **wanted)
    _end(script, result, json=json, width=width, color=color)


def _run_captured(script: str, argv: list[str], options: CaptureOptions) -> CaptureResult:
    """Run the script and print how it ended; the next output begins on a new line, whatever the
    script printed last.
    """
    from outpace.capture import run_script
    from outpace.capture.interpreter import require_script
    from outpace.capture.line_start import line_start
    from outpace.capture.messages import print_message
    from outpace.capture.runner import explain_crash, signal_name
    from outpace.model import CaptureError

    require_script(script, options.module)
    if options.stop:
        print_message("the training will be stopped after the capture (not with --then continue)")
    result = run_script(script, argv, options)
    if result.stopped:
        print_message("the training was stopped; the rest of the script did not run")
    sys.stdout.write(line_start(sys.stdout, unknown="\n"))
    if result.run is None and not result.exit_code:
        raise CaptureError(result.reason or "No profile was captured.")
    if result.run is None and result.reason:  # the exit code is the script's, and says nothing of the capture
        print_note(f"outpace: {result.reason}")
    if result.run is not None and not result.stopped and (why := explain_crash(result.exit_code)):
        print_note(
            f"outpace: The script's process was ended by {signal_name(result.exit_code)} after its profile was saved. {why}"
        )
    return result


def _show(run: str, startup: bool, **wanted: Any) -> None:
    """Show the report of a run; with `startup` the page about the start in place of the first
    screen.
    """
    from outpace.cli.output import show_capture
    from outpace.tools import require_tool

    show_capture(run, tool=require_tool("startup").id if startup else "", **wanted)


def _end(script: str, result: CaptureResult, *, json: bool, **wanted: Any) -> None:
    """End with the script's exit code; where a tool knows the exception that it ended with, with
    what that tells. With --json the report of a profile is the one document.
    """
    from outpace import api
    from outpace.cli.output import show_report

    report = api.report_of_log(script, result.failure, result.program) if result.failure else None
    if report is not None and not (json and result.run):
        show_report(report, details=True, json=json, **wanted)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _report_file(logdir: str, run: str) -> Path:
    """Return the default path of the HTML report: in the log directory, named after the run, never
    among the profile's own files. For a log directory that is a URL, the folder is the default one
    on this machine.
    """
    name = run.rstrip("/").rsplit("/", 1)[-1]
    folder = Path(DEFAULT_LOGDIR) if "://" in logdir else Path(logdir)
    return folder / f"outpace-{name}.html"

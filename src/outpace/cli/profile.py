"""`outpace profile`: run a training script, capture a window of its steps, and explain it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

_SETTINGS = {"allow_interspersed_args": False, "ignore_unknown_options": False}


class Then(str, Enum):
    """What becomes of the script after the capture."""

    STOP = "stop"
    CONTINUE = "continue"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(context_settings=_SETTINGS)(profile)


def profile(
    script: Annotated[str, typer.Argument(help="The training script, run unmodified as 'python SCRIPT ARGS' would.")],
    args: Annotated[list[str] | None, typer.Argument(help="Arguments for the script.")] = None,
    module: Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a module, run as 'python -m' does.")] = False,
    logdir: Annotated[
        str, typer.Option(help="TensorBoard log directory to write the profile to; local or a URL.")
    ] = "outpace-logs",
    warmup: Annotated[int, typer.Option(help="Steps to run before the capture.")] = 10,
    steps: Annotated[int | None, typer.Option(help="Steps to capture; 20 unless --seconds says how long.")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds to capture at most; works where no steps can be seen, too.")
    ] = None,
    then: Annotated[Then, typer.Option(help="After the capture, stop the script or let it train on.")] = Then.STOP,
    host_level: Annotated[int, typer.Option(min=0, max=3, help="Detail of host events.")] = 2,
    python_level: Annotated[int, typer.Option(min=0, max=1, help="1 also records Python calls.")] = 0,
    device_level: Annotated[int, typer.Option(min=0, max=1, help="0 leaves devices out.")] = 1,
    labels: Annotated[bool, typer.Option("--labels/--no-labels", help="Name tf.data stages after their source lines.")] = True,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The HTML report; beside the log directory's runs by default.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every table as a CSV file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (docs/json-schema.md) instead of text.")] = False,
    width: Annotated[int | None, typer.Option(min=40, help="Columns to print to; the terminal's by default.")] = None,
    color: Annotated[
        bool | None, typer.Option("--color/--no-color", help="Colours; by default when printing to a terminal.")
    ] = None,
) -> None:
    """Run a training script, capture some of its steps, and explain where their time goes.

    The script needs no change. Keras fit, evaluate and predict, tf.function loops and eager loops are recognised by themselves; the
    capture starts after a warm-up. Exit code: the script's own when the script fails, otherwise Outpace's (docs/exit-codes.md).
    """
    from outpace import api
    from outpace.capture import CaptureOptions, run_script
    from outpace.cli.output import show
    from outpace.model import CaptureError

    options = CaptureOptions(
        logdir=logdir,
        warmup=warmup,
        steps=steps if steps is not None or seconds is not None else 20,
        seconds=seconds,
        stop=then is Then.STOP,
        host_level=host_level,
        python_level=python_level,
        device_level=device_level,
        label=labels,
        module=module,
    )
    result = run_script(script, args or [], options)
    if result.run is not None:
        html = html or _report_file(logdir, result.run)
        show(api.open(result.run), html=html, csv=csv, json=json, width=width, color=color, summary=True)
    elif not result.exit_code:
        raise CaptureError(result.reason or "No profile was captured.")
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _report_file(logdir: str, run: str) -> Path:
    """Where the HTML goes by default: beside the log directory, named after the run, never among the profile's own files."""
    name = run.rstrip("/").rsplit("/", 1)[-1]
    folder = Path("outpace-logs") if "://" in logdir else Path(logdir)
    return folder / f"outpace-{name}.html"

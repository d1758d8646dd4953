"""`outpace tune`: find what makes an unmodified Keras script faster, and prove it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

_SETTINGS = {"allow_interspersed_args": False, "ignore_unknown_options": False}


class Then(str, Enum):
    """What becomes of the script after the tuning."""

    STOP = "stop"
    CONTINUE = "continue"
    APPLY = "apply"


class Allow(str, Enum):
    """Risks that have to be allowed."""

    STATISTICAL = "statistical"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(context_settings=_SETTINGS)(tune)


def tune(
    script: Annotated[str, typer.Argument(help="The Keras training script, run unmodified as 'python SCRIPT ARGS' would.")],
    args: Annotated[list[str] | None, typer.Argument(help="Arguments for the script.")] = None,
    module: Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a module, run as 'python -m' does.")] = False,
    budget: Annotated[str, typer.Option(metavar="TIME", help="About how long to tune: 90s, 3m.")] = "90s",
    then: Annotated[
        Then,
        typer.Option(
            help="stop the script afterwards; continue: train as if nothing had happened; apply: train on with the winner."
        ),
    ] = Then.STOP,
    allow: Annotated[
        list[Allow] | None, typer.Option(help="Also try what changes results by rounding or by other random numbers.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be tried and what that would run, and stop.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the samples of every race there (JSON lines).")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the HTML report.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON (docs/json-schema.md) instead of text.")] = False,
    width: Annotated[int | None, typer.Option(min=40, help="Columns to print to; the terminal's by default.")] = None,
    color: Annotated[
        bool | None, typer.Option("--color/--no-color", help="Colours; by default when printing to a terminal.")
    ] = None,
) -> None:
    """Find what makes a Keras training faster: measure its limits, try each practice that fits, keep what a fair race proves.

    Takes over the script's first fit. Afterwards the model, its optimizer and the random numbers are put back bit by bit. What may change
    results is only tried with --allow. Exit code: the script's own.
    """
    from outpace.capture.remote.options import seconds
    from outpace.model import NotFoundError

    if not module and not os.path.exists(script):
        raise NotFoundError(f"There is no script {script}. Give the path of a Python file, or a module with -m.")
    plan = {
        "script": script,
        "argv": args or [],
        "module": module,
        "budget": seconds(budget),
        "then": then.value,
        "statistical": Allow.STATISTICAL in (allow or []),
        "dry_run": dry_run,
        "out": str(out) if out else None,
        "html": str(html) if html else None,
        "json": json_,
        "width": width,
        "color": color,
    }
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # what multiprocessing uses
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *flags, "-m", "outpace.tune.hosted", json.dumps(plan)])

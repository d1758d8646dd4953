"""`outpace serve`: run a training script with a profiler server inside, so that it can be captured while it trains."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Annotated

import typer

_SETTINGS = {"allow_interspersed_args": False, "ignore_unknown_options": False}


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(context_settings=_SETTINGS)(serve)


def serve(
    script: Annotated[str, typer.Argument(help="The training script, run unmodified as 'python SCRIPT ARGS' would.")],
    args: Annotated[list[str] | None, typer.Argument(help="Arguments for the script.")] = None,
    module: Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a module, run as 'python -m' does.")] = False,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 6009,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 opens the server to the network, without a password.")
    ] = "127.0.0.1",
) -> None:
    """Run a training script that `outpace capture` can profile at any time while it trains.

    The server starts when the script imports TensorFlow or JAX. Everything else, the exit code too, is the script's own.
    """
    from outpace.capture.remote.hosted import MODULE, SCRIPT
    from outpace.capture.server import check_port
    from outpace.model import NotFoundError

    if not module and not os.path.exists(script):
        raise NotFoundError(f"There is no script {script}. Give the path of a Python file, or a module with -m.")
    check_port(port, host)
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # what multiprocessing uses
    kind = MODULE if module else SCRIPT
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(
        sys.executable,
        [sys.executable, *flags, "-m", "outpace.capture.remote.hosted", host, str(port), kind, script, *(args or [])],
    )

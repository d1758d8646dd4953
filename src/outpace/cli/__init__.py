"""The command line: one file per command, and one place where errors become exit codes."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

import typer

from outpace._version import __version__
from outpace.cli import profile, report, tools
from outpace.model import OutpaceError

app = typer.Typer(
    name="outpace",
    help="Find where a training step's time goes, and what to change first.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
report.register(app)
profile.register(app)
tools.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outpace {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Find where a training step's time goes, and what to change first."""


def main() -> None:
    """Entry point. Exit codes are those of `OutpaceError` and its kinds; `docs/exit-codes.md` lists them."""
    gc.disable()  # a short process that makes no garbage worth collecting
    try:
        app()
    except OutpaceError as error:
        typer.echo(f"outpace: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of our output went away (`outpace report ... | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)

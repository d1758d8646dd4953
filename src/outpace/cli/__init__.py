"""The command line: one file per command, and one place where errors become exit codes.

Commands import what they work with when they run: help is instant, and `report` settles its process before NumPy is loaded.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from outpace._version import __version__
from outpace.cli.process import leave

COMMANDS = ("report", "explain", "profile", "capture", "serve", "trace", "doctor", "lint", "tune", "race", "replay", "tools")


class Commands(TyperGroup):
    """Each command is a module of this package, imported when that command is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, or None."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
            importlib.import_module(f"{__name__}.{cmd_name}").register(alone)
            self.commands[cmd_name] = typer.main.get_command(alone)
        return self.commands.get(cmd_name)


app = typer.Typer(
    cls=Commands,
    name="outpace",
    help="Find where a training step's time goes, and what to change first.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    try:
        app()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except OSError as error:
        code = _lost_output(error)
    except Exception as error:
        from outpace.model import OutpaceError

        if not isinstance(error, OutpaceError):
            raise
        typer.echo(f"outpace: {error}", err=True)
        code = error.exit_code
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _lost_output(error)
    leave(code)


def _lost_output(error: OSError) -> int:
    """Exit code when standard output takes no more; raises any other error again."""
    if error.filename is not None or error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno == errno.EPIPE:  # the reader went away, as in `outpace report ... | head`
        return 0
    from outpace.model import OutputError

    typer.echo(f"outpace: The report cannot be written to standard output: {error.strerror}.", err=True)
    return OutputError.exit_code

# SPDX-License-Identifier: Apache-2.0
"""The command line: one module per command, and one place that turns errors into exit codes.

Commands import their dependencies when they run: help is instant, and `report` configures its
process before NumPy is loaded.
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
from outpace.cli.console import print_note
from outpace.cli.options import PASSED_ON
from outpace.cli.process import (
    TerminationSignal,
    exit_process,
    install_full_writes,
    open_missing_streams,
    raise_on_signals,
    require_posix,
)

GROUPS = {
    "Look": ("report", "explain", "hlo", "ui", "trace", "compare", "baseline", "export"),
    "Capture": ("profile", "capture", "serve", "doctor"),
    "Improve": ("lint", "tune", "race", "replay"),
    "More": ("tools", "mcp"),
}
"""Commands by their heading in the help."""

COMMANDS = tuple(name for names in GROUPS.values() for name in names)
# The remaining commands need POSIX processes.
_PORTABLE_COMMANDS = ("report", "explain", "hlo", "compare", "baseline", "export", "trace", "lint", "tools")
_SCRIPT_COMMANDS = ("profile", "serve", "tune")  # commands that pass all arguments after the script on to it


class CommandGroup(TyperGroup):
    """The group of all commands. Each command is a function in a module of its name in this
    package, imported when the command is used; a command with subcommands is its module's `Typer`.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands' names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with that name, or with a tool's name; None where there is none."""
        cmd_name = _meaning(cmd_name)[0]
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            command = getattr(importlib.import_module(f"{__name__}.{cmd_name}"), cmd_name)
            if not isinstance(command, typer.Typer):
                alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
                alone.command(context_settings=PASSED_ON if cmd_name in _SCRIPT_COMMANDS else None)(command)
                command = alone
            made: Any = typer.main.get_command(command)
            made.name = cmd_name
            made.rich_help_panel = next(group for group, names in GROUPS.items() if cmd_name in names)
            self.commands[cmd_name] = made
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments begin with. Raises UsageError, with similar names,
        where there is none.
        """
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            from outpace.model import UsageError
            from outpace.model.text import format_suggestion

            if os.path.exists(name) or "://" in name:
                raise UsageError(f"'{name}' is no command: 'outpace report {name}' analyses a profile.")
            raise UsageError(
                f"There is no command '{name}'.{format_suggestion(name, COMMANDS)} There are: {', '.join(COMMANDS)}."
            )
        if name in COMMANDS and name not in _PORTABLE_COMMANDS:
            require_posix(f"'outpace {name}'")
        command, words = _meaning(name)
        return super().resolve_command(ctx, [command, *words, *args[1:]])


def _meaning(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the command that a name refers to, and the arguments that it adds: a tool's name,
    including TensorBoard's and XProf's, is a report of that tool.
    """
    if name in COMMANDS or not name.isidentifier():
        return name, ()
    if name == "trace_viewer":
        return "trace", ()
    from outpace.tools import find_tool

    tool = find_tool(name)
    return (name, ()) if tool is None else ("report", ("--tool", tool.id))


app = typer.Typer(
    cls=CommandGroup,
    name="outpace",
    help="Find where a training step's time goes, and what to change first.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_set: bool) -> None:
    """Print the version and exit, where the option is set."""
    if is_set:
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
    """Run the command line. Exit codes are those of `OutpaceError` and its subclasses;
    `docs/exit-codes.md` lists them.
    """
    try:
        raise_on_signals()
        open_missing_streams()
        install_full_writes()
        code = _run()
        try:
            sys.stdout.flush()
        except OSError as error:
            code = _lost_output(error) or code
        exit_process(code)
    except TerminationSignal as ended:
        ended.end()


def _run() -> int:
    """Run the command and return its exit code."""
    try:
        app()
    except SystemExit as end:
        # Typer and Rich raise this where the reader has closed the pipe
        if isinstance(end.__context__, BrokenPipeError):
            return _lost_output(end.__context__)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except OSError as error:
        return _lost_output(error)
    except MemoryError as error:
        print_note(f"outpace: There is not enough memory: {str(error) or 'the system gives no more'}.")
        return 1
    except Exception as error:
        from outpace.model import OutpaceError

        if not isinstance(error, OutpaceError):
            raise
        print_note(f"outpace: {error}")
        return error.exit_code
    return 0


def _lost_output(error: OSError) -> int:
    """Return the exit code for an error of writing to standard output; any other error is raised
    again.
    """
    if error.filename is not None or error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno == errno.EPIPE:  # the reader has closed the pipe, as in `outpace report ... | head`
        return 0
    from outpace.model import OutputError

    closed = "The report cannot be written: standard output is closed. Use --html or --csv, or redirect it to a file."
    failed = f"The report cannot be written to standard output: {error.strerror}."
    print_note(f"outpace: {closed if error.errno == errno.EBADF else failed}")
    return OutputError.exit_code

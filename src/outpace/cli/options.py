# SPDX-License-Identifier: Apache-2.0
"""Options shared by several commands, so that their help is worded once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

Script = Annotated[str, typer.Argument(help="The training script, run unmodified as 'python SCRIPT ARGS' would.")]
ScriptArgs = Annotated[list[str] | None, typer.Argument(help="Arguments for the script.")]
Module = Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a module, run as 'python -m' does.")]
# settings of commands that pass all that follows SCRIPT on to the script
PASSED_ON = {"allow_interspersed_args": False, "ignore_unknown_options": False}

HostLevel = Annotated[int, typer.Option(min=0, max=3, help="Detail of host events.")]
PythonLevel = Annotated[int, typer.Option(min=0, max=1, help="1 also records Python calls.")]
DeviceLevel = Annotated[int, typer.Option(min=0, max=1, help="0 leaves devices out.")]


def parse_percent(text: str) -> float:
    """Return a share of a step, parsed from `5%` or `5`."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise typer.BadParameter(f"{text!r} is no percentage above 0 and up to 100, as in 5%")
    return share


Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the HTML report.")]
Csv = Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every table as a CSV file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Redact = Annotated[
    bool, typer.Option("--redact", help="Put stand-ins in the place of paths, hosts, users and the script's arguments.")
]
ShowSecrets = Annotated[
    bool,
    typer.Option(
        "--show-secrets",
        help="Show and keep the values of arguments that are named key, token, secret or password; dots stand for them otherwise.",
    ),
]
Window = Annotated[
    str | None,
    typer.Option(
        metavar="BEGIN:END",
        help="Only what lies in this time, from the earliest event of each host: 1.2s:1.5s, 800ms: or :2s.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="How much memory the events may take beside the file's bytes, as in 4GB; a quarter of the machine's by default.",
    ),
]
Width = Annotated[int | None, typer.Option(min=40, help="Columns to print to; the terminal's by default.")]
Color = Annotated[bool | None, typer.Option("--color/--no-color", help="Colours; by default when printing to a terminal.")]


def check_script_args(context: typer.Context, args: list[str] | None) -> list[str]:
    """Return the script's arguments. Where one of them is the name of an option of the command,
    which may stand behind the script by mistake, a message says so.
    """
    from outpace.capture.messages import print_message

    option_names = {name for param in context.command.params for name in param.opts if name.startswith("--")}
    misplaced = next((arg for arg in args or () if arg.partition("=")[0] in option_names), None)
    if misplaced is not None:
        print_message(
            f"{misplaced} is given to the script, because it stands behind it; Outpace's own options stand before the script"
        )
    return args or []


def build_open_options(window: str | None, memory: str | None) -> dict[str, Any]:
    """Return the options of `outpace.open` for --window and --memory. Without --memory, a profile
    gets a quarter of the memory limit; the rest is for the tables and other programs.
    """
    from outpace._memory import memory_limit
    from outpace.trace import parse_size, parse_window

    granted = memory_limit()
    usual = None if granted is None else granted // 4
    return {
        "window": None if window is None else parse_window(window),
        "memory": usual if memory is None else parse_size(memory),
    }

# SPDX-License-Identifier: Apache-2.0
"""`outpace doctor`: checks whether a capture works here, and prints the commands that repair what
does not.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from outpace.capture.options import DEFAULT_LOGDIR
from outpace.cli.options import Color, Width

if TYPE_CHECKING:
    from rich.console import Console

    from outpace.doctor import CheckResult, Diagnosis

_SYMBOLS = {"ok": "✓", "note": "•", "not checked": "–", "problem": "✗"}
_PLAIN = {"ok": "+", "note": "*", "not checked": "-", "problem": "x"}  # ASCII marks for terminals that cannot print the others
_STYLES = {"ok": "green", "note": "cyan", "not checked": "dim", "problem": "bold red"}
_ORDER = ("ok", "not checked", "note", "problem")


def doctor(
    logdir: Annotated[
        str, typer.Option(help="The log directory that captures will be written to; local or a URL.")
    ] = DEFAULT_LOGDIR,
    trial: Annotated[
        bool, typer.Option("--trial/--no-trial", help="Make a capture of three steps in a temporary folder (5 to 10 s).")
    ] = True,
    python: Annotated[
        str | None,
        typer.Option("--python", metavar="PYTHON", help="The Python that trains, when it is not the one that runs Outpace."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Check whether captures work here, and say what to type where they do not.

    Looks at versions, GPUs, CUPTI, the log directory and other profilers, then makes a trial
    capture. Exit code 0 when captures work, 5 when something stops them, which includes a Python
    without TensorFlow and JAX.
    """
    from outpace.doctor import diagnose
    from outpace.model import CaptureError

    diagnosis = diagnose(logdir, trial=trial, python=python, progress=_tell)
    _tell("")
    if json:
        import json as encoder

        sys.stdout.write(encoder.dumps(diagnosis.to_dict(), indent=1) + "\n")
    else:
        _show(diagnosis, width, color)
    if not diagnosis.works:
        raise typer.Exit(CaptureError.exit_code)


def _tell(text: str) -> None:
    """Print the current activity on one line of the terminal, which the next text replaces;
    nothing outside of a terminal.
    """
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + (f"{text} …" if text else ""))
        sys.stderr.flush()


def _show(diagnosis: Diagnosis, width: int | None, color: bool | None) -> None:
    from outpace.cli.console import build_console

    console = build_console(width, color)
    console.print(diagnosis.verdict, style="bold")
    console.print(diagnosis.python, style="dim", overflow="fold")
    console.print()
    ordered = sorted(diagnosis.results, key=lambda result: _ORDER.index(result.outcome.value))
    side = max(len(result.id) for result in ordered) if console.width >= 72 else 0
    for result in ordered:
        _line(console, result, min(side, 24))


def _line(console: Console, result: CheckResult, side: int) -> None:
    """Print one result: mark, name and sentence in columns; for a result that is not ok, the
    evidence and the repair command below.
    """
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    outcome = result.outcome.value
    symbols = _SYMBOLS if "utf" in (console.encoding or "").lower() else _PLAIN
    row = Table.grid(padding=(0, 1))
    row.add_column(width=1)
    row.add_column(width=side or None)
    if side:
        row.add_column(ratio=1)
        row.add_row(
            Text(symbols[outcome], style=_STYLES[outcome]), Text(result.id, overflow="fold"), Text(result.text, overflow="fold")
        )
    else:
        row.add_row(Text(symbols[outcome], style=_STYLES[outcome]), Text(f"{result.id}: {result.text}", overflow="fold"))
    console.print(row)
    indent = 3 + side if side else 2
    if outcome in ("note", "problem"):
        for line in result.evidence:
            console.print(Padding(Text(line, style="dim", overflow="fold"), (0, 0, 0, indent)))
    if result.command:
        console.print(Text(" " * indent + "$ " + result.command, style="bold" if outcome == "problem" else ""), soft_wrap=True)

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
    from rich.table import Table

    from outpace.doctor import CheckResult, Diagnosis
    from outpace.store.cpu_peaks import CpuPeaks, MeasuredRate

_SYMBOLS = {"ok": "✓", "note": "•", "not checked": "–", "problem": "✗"}
_PLAIN = {"ok": "+", "note": "*", "not checked": "-", "problem": "x"}  # ASCII marks for terminals that cannot print the others
_STYLES = {"ok": "green", "note": "cyan", "not checked": "dim", "problem": "bold red"}
_STEADY = 0.8  # lowest rate of a measurement, as a share of the highest, on a quiet machine
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
    peaks: Annotated[
        bool,
        typer.Option(
            "--peaks",
            help="Measure what this processor and its memory can do (10 s), and keep it for the captures of this machine.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Check whether captures work here, and say what to type where they do not.

    Looks at versions, GPUs, CUPTI, the log directory and other profilers, then makes a trial
    capture. Exit code 0 when captures work, 5 when something stops them, which includes a Python
    without TensorFlow and JAX.
    """
    if peaks:
        _measure_peaks(json, width, color)
        return
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


def _measure_peaks(json: bool, width: int | None, color: bool | None) -> None:
    """Measure the peaks of this machine, print them, and keep them in the user's cache."""
    from outpace.doctor.peaks import measure_cpu_peaks
    from outpace.doctor.system import System
    from outpace.store.cpu_peaks import write_cpu_peaks

    peaks = measure_cpu_peaks(System(), _tell)
    _tell("")
    path = write_cpu_peaks(peaks)
    if json:
        import json as encoder

        sys.stdout.write(encoder.dumps(peaks.as_dict(), indent=1) + "\n")
        return
    from outpace.cli.console import build_console

    console = build_console(width, color)
    console.print(f"{peaks.cpu}, {peaks.cores} {'core' if peaks.cores == 1 else 'cores'}", style="bold", highlight=False)
    console.print(_peak_table(peaks))
    note = f"The fastest products of {' and '.join(peaks.libraries)}. Kept in {path}: captures of this machine hold them."
    console.print(note, style="dim", highlight=False, overflow="fold")
    if any(rate.low < _STEADY * rate.high for rate in (*peaks.flops.values(), peaks.copy_bytes)):
        console.print(
            "The rates vary: other programs work, or the clock does. Measure again on a quiet machine.", highlight=False
        )


def _peak_table(peaks: CpuPeaks) -> Table:
    """Return the peaks as a table: the highest rates, and the range of the trials in brackets."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("", "one core", f"all {peaks.cores}"):
        table.add_column(title, justify="right" if title else "left")
    for dtype in peaks.flops:
        table.add_row(f"products in {dtype}, GFLOP/s", *map(_range, (peaks.core_flops[dtype], peaks.flops[dtype])))
    table.add_row("copies, GB/s read and written", *map(_range, (peaks.core_copy_bytes, peaks.copy_bytes)))
    return table


def _range(rate: MeasuredRate) -> str:
    return f"{rate.high / 1e9:.3g} ({rate.low / 1e9:.3g} to {rate.high / 1e9:.3g})"


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

# SPDX-License-Identifier: Apache-2.0
"""`outpace compare`: compares two runs and gives one verdict."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outpace.cli.console import name_option
from outpace.cli.options import Color, Csv, Html, Json, Memory, Redact, Width, Window, build_open_options, parse_percent
from outpace.cli.process import configure_process, require_posix

if TYPE_CHECKING:
    from outpace.compare import Comparison, Gate, Side

_WHAT = "A *.xplane.pb file, a run folder, or a log directory (its newest run), local or a URL; or a baseline, by name or path."
_Path = Annotated[str | None, typer.Argument(help=_WHAT)]
_Before = Annotated[
    list[str] | None,
    typer.Option("--before", metavar="PATH", help="A further capture of the first program; can be repeated."),
]
_After = Annotated[
    list[str] | None,
    typer.Option("--after", metavar="PATH", help="A further capture of the second program; can be repeated."),
]
_Run = Annotated[
    str | None,
    typer.Option(metavar="COMMAND", help="Capture this script, in turns with that of --against: 'NAME=VALUE train.py --xla'."),
]
_Against = Annotated[str | None, typer.Option(metavar="COMMAND", help="What it is compared with.")]
_Captures = Annotated[int | None, typer.Option(metavar="N", min=1, help="How often each side is captured; 4 times by default.")]
_Warmup = Annotated[int | None, typer.Option(min=0, help="Steps to run before each capture; 10 by default.")]
_Steps = Annotated[int | None, typer.Option(min=1, help="Steps to capture (default: 20, and at least two seconds).")]
_Logdir = Annotated[str | None, typer.Option(metavar="DIR", help="Keep these captures in a folder, local or a URL.")]
_Effect = Annotated[
    float | None,
    typer.Option(metavar="PERCENT", parser=parse_percent, help='Up to where "no difference" is said; 5% by default.'),
]
_Gate = Annotated[
    float | None,
    typer.Option(
        metavar="PERCENT",
        parser=parse_percent,
        help="Let the exit code speak: 0 passed, 10 the program takes more of a step than that, 11 inconclusive. Sets --effect.",
    ),
]
_Junit = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write what the gate says as JUnit XML, for continuous integration.")
]


def compare(
    before: _Path = None,
    after: _Path = None,
    more_before: _Before = None,
    more_after: _After = None,
    run: _Run = None,
    against: _Against = None,
    captures: _Captures = None,
    warmup: _Warmup = None,
    steps: _Steps = None,
    logdir: _Logdir = None,
    effect: _Effect = None,
    gate: _Gate = None,
    junit: _Junit = None,
    details: Annotated[bool, typer.Option("--details", help="Show every table below the first screen.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, to paste into an issue.")] = False,
    html: Html = None,
    csv: Csv = None,
    json: Json = False,
    window: Window = None,
    redact: Redact = False,
    memory: Memory = None,
    width: Width = None,
    color: Color = None,
) -> None:
    """Compare two runs: is the second one faster or slower, what makes the difference, and is that
    the program or the machine?

    A machine that is slower, or busy, changes whole classes of work alike; what leaves its class is
    the program's. The more captures of each side, the more their own spread decides; with one a
    stated one does, and small changes of the whole step stay open.

    --run and --against capture both sides first, in turns, each time in a fresh process that is
    stopped after the capture. Exit code 5 where one of them cannot be captured, 130 after Ctrl-C.
    """
    _check(effect, gate, junit)
    runs = [before, *(more_before or ())], [after, *(more_after or ())]
    one, two, interrupted = _sides(runs, (against, run), (captures, warmup, steps, logdir), redact, (window, memory))
    comparison, gate_result = _evaluate(one, two, effect, gate, junit, in_turns=run is not None)
    from outpace.cli.output import show_report
    from outpace.compare import build_report

    output_options: dict[str, Any] = {
        "details": details,
        "markdown": markdown,
        "html": html,
        "csv": csv,
        "json": json,
        "width": width,
        "color": color,
    }
    with contextlib.suppress(BrokenPipeError):  # a reader that closes the pipe, as `head` does, does not change the exit code
        show_report(build_report(comparison, gate_result), single=True, **output_options)
    if interrupted:
        raise typer.Exit(130)
    if gate_result is not None:
        gate_result.enforce()


def _usage_error(sentence: str) -> Exception:
    """Return a UsageError."""
    from outpace.model import UsageError

    return UsageError(sentence)


def _sides(
    runs: tuple[list[str | None], list[str | None]],
    commands: tuple[str | None, str | None],
    captures: tuple[int | None, int | None, int | None, str | None],
    redact: bool,
    part: tuple[str | None, str | None],
) -> tuple[Side, Side, bool]:
    """Return both sides, read from runs or captured now, and whether Ctrl-C ended the capturing
    early.
    """
    against, run = commands
    if commands == (None, None):
        one, two = ([source for source in side if source is not None] for side in runs)
        if not one or not two or captures != (None,) * 4:
            raise _usage_error(
                "Give two runs; or two commands, with --run and --against, to capture (which other options of captures are for)."
            )
        return *_read(one, two, redact, build_open_options(*part)), False
    if against is None or run is None or runs != ([None], [None]):
        raise _usage_error("--run and --against each name a command, and take the place of runs.")
    if redact or part != (None, None):
        raise _usage_error(
            "--redact, --window and --memory are for runs that are there. Keep the captures with --logdir, and compare these with them."
        )
    return _capture_both(against, run, *captures)


def _read(before: list[str], after: list[str], redact: bool, part: dict[str, Any]) -> tuple[Side, Side]:
    """Return both sides, read from profiles or baselines."""
    configure_process()
    from outpace.cli.side_sources import read_side
    from outpace.model.redaction import Redaction

    redaction = Redaction() if redact else None
    return read_side(before, redaction, part), read_side(after, redaction, part)


def _capture_both(
    against: str, run: str, captures: int | None, warmup: int | None, steps: int | None, logdir: str | None
) -> tuple[Side, Side, bool]:
    """Capture both sides now; return them and whether Ctrl-C ended that early. `configure_process`
    is not called for this process, because scripts inherit its environment.
    """
    require_posix("'outpace compare --run'")
    from outpace.capture.options import CaptureOptions
    from outpace.cli.interleaved_capture import CAPTURES_PER_SIDE, capture_sides

    options = CaptureOptions.for_command(steps, logdir=logdir, warmup=CaptureOptions.warmup if warmup is None else warmup)
    sides, interrupted = capture_sides(against, run, captures or CAPTURES_PER_SIDE, options)
    if not sides:
        raise typer.Exit(130)
    return sides[0], sides[1], interrupted


def _check(effect: float | None, gate: float | None, junit: Path | None) -> None:
    """Raise UsageError for options that contradict each other."""
    if gate is not None and effect is not None:
        raise _usage_error("--gate sets what --effect does. Give one of them.")
    if junit is not None and gate is None:
        raise _usage_error("--junit writes what a gate says. Give --gate, as in --gate 5%.")


def _evaluate(
    before: Side, after: Side, effect: float | None, gate: float | None, junit: Path | None, *, in_turns: bool
) -> tuple[Comparison, Gate | None]:
    """Return the comparison's result and the gate's result; the latter is also written as JUnit
    XML where the options request it.
    """
    from outpace.compare import compare as compare_sides
    from outpace.compare import evaluate_gate
    from outpace.compare import junit as junit_
    from outpace.compare.verdict import MIN_EFFECT

    comparison = compare_sides(before, after, gate or effect or MIN_EFFECT, in_turns=in_turns)
    gate_result = evaluate_gate(comparison, gate) if gate is not None else None
    if gate_result is not None and junit is not None:
        with name_option("--junit"):
            junit_.write(comparison, gate_result, junit)
    return comparison, gate_result

"""`outpace compare`: two runs, one verdict."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outpace.cli.console import option
from outpace.cli.options import Color, Csv, Html, Json, Redact, Width, percent
from outpace.cli.process import tune

if TYPE_CHECKING:
    from outpace.compare import Comparison, Gate

_Path = Annotated[
    str,
    typer.Argument(
        help="A *.xplane.pb file, a run folder, or a log directory (its newest run), local or a URL; or a baseline, by name or path."
    ),
]


def compare(
    before: _Path,
    after: _Path,
    more_before: Annotated[
        list[str] | None,
        typer.Option("--before", metavar="PATH", help="A further capture of the first program; can be repeated."),
    ] = None,
    more_after: Annotated[
        list[str] | None,
        typer.Option("--after", metavar="PATH", help="A further capture of the second program; can be repeated."),
    ] = None,
    effect: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", parser=percent, help='Up to where "no difference" is said; 5% by default.'),
    ] = None,
    gate: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            parser=percent,
            help="Let the exit code speak: 0 passed, 10 the program takes more of a step than that, 11 inconclusive. Sets --effect.",
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write what the gate says as JUnit XML, for continuous integration."),
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="Show every table below the first screen.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, to paste into an issue.")] = False,
    html: Html = None,
    csv: Csv = None,
    json: Json = False,
    redact: Redact = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Compare two runs: is the second one faster or slower, what makes the difference, and is that the program or the machine?

    A machine that is slower, or busy, changes whole classes of work alike; what leaves its class is the program's. The more captures of each
    side, the more their own spread decides; with one a stated one does, and small changes of the whole step stay open.
    """
    tune()
    from outpace.cli.output import show
    from outpace.compare import report_of

    found, said = _judged([before, *(more_before or ())], [after, *(more_after or ())], effect, gate, junit, redact)
    with contextlib.suppress(BrokenPipeError):  # a reader that goes away, as `head` does, changes no verdict
        show(
            report_of(found, said),
            single=True,
            details=details,
            markdown=markdown,
            html=html,
            csv=csv,
            json=json,
            width=width,
            color=color,
        )
    if said is not None:
        said.enforce()


def _judged(
    before: list[str], after: list[str], effect: float | None, gate: float | None, junit: Path | None, redact: bool
) -> tuple[Comparison, Gate | None]:
    """What a comparison finds, and what the gate says of it, which is also written as JUnit XML where that is asked for."""
    from outpace.cli.sides import side
    from outpace.compare import compare as compared
    from outpace.compare import judged
    from outpace.compare import junit as junit_
    from outpace.compare.verdict import EFFECT
    from outpace.model import UsageError
    from outpace.model.redact import Redaction
    from outpace.trace import TERMS

    if gate is not None and effect is not None:
        raise UsageError("--gate sets what --effect does. Give one of them.")
    if junit is not None and gate is None:
        raise UsageError("--junit writes what a gate says. Give --gate, as in --gate 5%.")
    redaction = Redaction(TERMS) if redact else None
    found = compared(side(before, redaction), side(after, redaction), gate or effect or EFFECT)
    said = judged(found, gate) if gate is not None else None
    if said is not None and junit is not None:
        with option("--junit"):
            junit_.write(found, said, junit)
    return found, said

"""`outpace compare`: two runs, one verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outpace.cli.options import Color, Width
from outpace.cli.process import tune

if TYPE_CHECKING:
    from outpace.compare import Side

_Path = Annotated[
    str, typer.Argument(help="A *.xplane.pb file, a run folder, or a log directory (its newest run), local or a URL.")
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
    effect: Annotated[float, typer.Option(metavar="PERCENT", help="Smallest change of a step that counts.")] = 5.0,
    details: Annotated[bool, typer.Option("--details", help="Show every table below the first screen.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, to paste into an issue.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the comparison as one offline HTML file.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every table as a CSV file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Compare two runs: is the second one faster or slower, what makes the difference, and is that the program or the machine?

    A machine that is slower, or busy, changes whole classes of work alike; what leaves its class is the program's. With three captures or
    more of each side their own spread decides; with fewer a stated one does, and small changes of the whole step stay open.
    """
    tune()
    from outpace.cli.output import show
    from outpace.compare import compare as compared
    from outpace.compare import report_of

    found = compared(_side(before, more_before or []), _side(after, more_after or []), effect / 100)
    show(
        report_of(found),
        single=True,
        details=details,
        markdown=markdown,
        html=html,
        csv=csv,
        json=json,
        width=width,
        color=color,
    )


def _side(path: str, more: list[str]) -> Side:
    from outpace import api
    from outpace.compare import Side

    return Side(path, tuple(api.open(each).run for each in (path, *more)))

"""`outpace baseline`: sides of a comparison that are kept."""

from __future__ import annotations

from typing import Annotated

import typer

from outpace.cli.options import Color, Csv, Html, Json, Width
from outpace.cli.process import tune
from outpace.compare import places

baseline = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    no_args_is_help=True,
    help="Keep a side of a comparison in a file that a repository can hold: its captures as tables, without their profiles.",
)

Name = Annotated[str, typer.Argument(help="Name of the baseline, as 'outpace compare' takes it.")]
Folder = Annotated[str, typer.Option("--dir", metavar="DIR", help="Folder of the baselines.")]


@baseline.command()
def save(
    name: Name,
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Captures of one program: profiles, as 'outpace compare' takes them.")
    ],
    folder: Folder = places.FOLDER,
    force: Annotated[bool, typer.Option("--force", help="Replace a baseline of that name.")] = False,
) -> None:
    """Keep captures of a program as a baseline, to compare others with."""
    tune()
    from outpace.cli.sides import side
    from outpace.compare import baseline as kept

    path = places.free(name, folder, force=force)
    found = side(runs)
    kept.save(found, path)
    typer.echo(f"{found.amount} are kept in {path} ({path.stat().st_size / 1000:,.0f} kB).")


@baseline.command("list")
def list_(folder: Folder = places.FOLDER, json: Json = False, width: Width = None, color: Color = None) -> None:
    """List the baselines."""
    from outpace.cli.output import show
    from outpace.compare.baseline_page import all_of

    show(all_of(folder), single=True, json=json, width=width, color=color)


@baseline.command("show")
def show_(
    name: Name,
    folder: Folder = places.FOLDER,
    html: Html = None,
    csv: Csv = None,
    json: Json = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Show what a baseline holds: its step time, its parts, and the facts that a comparison asks for."""
    from outpace.cli.output import show
    from outpace.compare import baseline as kept
    from outpace.compare.baseline_page import report_of

    found = kept.load(places.existing(name, folder), name)
    show(report_of(found), single=True, html=html, csv=csv, json=json, width=width, color=color)


@baseline.command()
def remove(name: Name, folder: Folder = places.FOLDER) -> None:
    """Remove a baseline."""
    path = places.existing(name, folder)
    path.unlink()
    typer.echo(f"{path} is removed.")

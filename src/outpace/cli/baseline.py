# SPDX-License-Identifier: Apache-2.0
"""`outpace baseline`: saves, lists, shows and removes baselines, which are stored sides of a
comparison.
"""

from __future__ import annotations

from typing import Annotated

import typer

from outpace.cli.options import Color, Csv, Html, Json, Width
from outpace.cli.process import configure_process
from outpace.compare import baseline_store

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
    folder: Folder = baseline_store.FOLDER,
    force: Annotated[bool, typer.Option("--force", help="Replace a baseline of that name.")] = False,
) -> None:
    """Keep captures of a program as a baseline, to compare others with."""
    configure_process()
    from outpace.cli.side_sources import read_side
    from outpace.compare import baseline as baselines

    path = baseline_store.require_free(name, folder, force=force)
    side = read_side(runs)
    baselines.write_baseline(side, path)
    typer.echo(f"{side.size_text} are kept in {path} ({path.stat().st_size / 1000:,.0f} kB).")


@baseline.command("list")
def list_(folder: Folder = baseline_store.FOLDER, json: Json = False, width: Width = None, color: Color = None) -> None:
    """List the baselines."""
    from outpace.cli.output import show_report
    from outpace.compare.baseline_page import build_baselines_report

    show_report(build_baselines_report(folder), single=True, json=json, width=width, color=color)


@baseline.command("show")
def show_(
    name: Name,
    folder: Folder = baseline_store.FOLDER,
    html: Html = None,
    csv: Csv = None,
    json: Json = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Show what a baseline holds: its step time, its parts, and the facts that a comparison asks
    for.
    """
    from outpace.cli.output import show_report
    from outpace.compare import baseline as baselines
    from outpace.compare.baseline_page import build_baseline_report

    side = baselines.read_baseline(baseline_store.require_existing(name, folder), name)
    show_report(build_baseline_report(side), single=True, html=html, csv=csv, json=json, width=width, color=color)


@baseline.command()
def remove(name: Name, folder: Folder = baseline_store.FOLDER) -> None:
    """Remove a baseline."""
    path = baseline_store.require_existing(name, folder)
    path.unlink()
    typer.echo(f"{path} is removed.")

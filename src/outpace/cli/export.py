# SPDX-License-Identifier: Apache-2.0
"""`outpace export`: writes the tables of many runs as files for other programs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outpace.cli.console import name_option, print_note
from outpace.cli.options import Redact
from outpace.cli.process import configure_process

if TYPE_CHECKING:
    from outpace.tables import ProgressCallback


def export(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="*.xplane.pb files, run folders, or log directories (all of their runs), local or URLs.",
            show_default=False,
        ),
    ],
    parquet: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder to write, whole or not at all; an earlier export there is replaced.")
    ],
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this table, as in overview.steps or runs, or all of a tool, as in overview; can be repeated.",
        ),
    ] = None,
    redact: Redact = False,
) -> None:
    """Write the tables of one or many runs as Parquet files, for DuckDB, Polars and pandas.

    One file per table, `TOOL.TABLE.parquet`, holds the rows of all runs; the columns `run` and
    `host` come first. Times are whole picoseconds, missing values null. The tables `runs` and
    `findings` say what each run is (versions, script, time of capture, headline) and what to change
    in it. Each column carries its unit and meaning, whether it is of the table's key, and whether
    it may be added up. A run that cannot be read is left out, and said. Needs pyarrow: pip install
    pyarrow.

    Example: outpace export logs --parquet tables && duckdb -c "SELECT run, avg(duration_ps) / 1e9
    AS ms FROM 'tables/overview.steps.parquet' WHERE aside = '' GROUP BY run"
    """
    configure_process()
    from outpace.model import ToolError
    from outpace.model.units import format_count
    from outpace.tables import export as export_tables

    with name_option("--parquet"), _progress() as progress:
        result = export_tables(*paths, parquet=parquet, tables=table or (), progress=progress, redact=redact)
    for remark in result.remarks:
        print_note(f"Note: {remark}")
    print_note(f"{format_count(len(result.files), 'table')} of {format_count(len(result.runs), 'run')} are in {parquet}")
    if result.failed:
        which = ", ".join(sorted({f"{page.id} ({page.failure.error})" for page in result.failed if page.failure}))
        raise ToolError(f"Tools failed: {which}. What the others say is written; 'outpace report PATH --json' has the traces.")


@contextlib.contextmanager
def _progress() -> Iterator[ProgressCallback]:
    """Show the progress as an updating line in a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda name, index, total: None
        return
    from rich.console import Console
    from rich.markup import escape

    from outpace.model.text import clean

    with Console(stderr=True, highlight=False).status("", spinner="dots") as status:
        yield lambda name, index, total: status.update(f"run {index} of {total}: {escape(clean(name))}")

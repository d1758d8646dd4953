# SPDX-License-Identifier: Apache-2.0
"""Tables of many runs as Parquet files, for DuckDB, Polars and other columnar tools. A file
contains one table with the rows of all runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from outpace._version import __version__
from outpace.model import Field, OutpaceError, Table, Unit
from outpace.model.files import write_atomically
from outpace.report import json_
from outpace.report.file_stems import file_stems

RUN_FIELD = Field("run", Unit.TEXT, "run that the row is of, by the shortest name that tells it from the others", key=True)
_HOST = Field("host", Unit.TEXT, "host that the row is of; missing where it speaks of several hosts together")
_ROW = Field("row", Unit.COUNT, "place of the row in the table of its run, from 0", key=True)
_NOTES = "outpace"
"""Metadata key of a file's description as JSON, for readers that ignore Arrow's column metadata."""


def require_pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its Parquet module. Raises OutpaceError with instructions for installation
    where they are missing.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise OutpaceError(
            f"Parquet is written by pyarrow, which cannot be imported ({error}). Install it: pip install pyarrow"
        ) from None
    return pyarrow, pyarrow.parquet


def add_run_columns(table: Table, run: str, host: str | None) -> Table:
    """Return a table with the columns `run` and `host` in front, and the number of each row where
    no other column identifies it. `host`: host of a table without a column of hosts; None where
    the run has several.
    """
    rows = len(table)
    first = {RUN_FIELD: np.full(rows, run, object)}
    if "host" in table:
        first[table.field("host")] = table["host"]
    else:
        first[_HOST] = np.full(rows, host, object)
    if not table.key:
        first[_ROW] = np.arange(rows)
    names = {spec.name for spec in first}
    rest = {
        replace(spec, name=f"{spec.name}_of_table") if spec.name in names else spec: column
        for spec, column in zip(table.fields, table.columns, strict=True)
        if spec not in first
    }
    every = first | rest
    return Table(table.name, table.title, tuple(every), tuple(every.values()))


def is_export(path: Path) -> bool:
    """Whether a file was created by `write`."""
    pa, parquet = require_pyarrow()
    try:
        return path.suffix == ".parquet" and _NOTES.encode() in (parquet.read_metadata(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def write(tables: Mapping[tuple[str, str], Sequence[Table]], directory: str | os.PathLike[str]) -> list[Path]:
    """Write the tables of each (tool, name), concatenated, as `<tool>.<name>.parquet` into
    `directory` (created if missing); tables without a tool as `<name>.parquet`.

    A file appears completely or not at all. Raises OutputError where the files cannot be written.
    """
    pa, parquet = require_pyarrow()
    paths = []
    for (tool, name), stem in zip(tables, file_stems(list(tables)), strict=True):
        parts = tables[tool, name]
        merged = pa.concat_tables(
            map(pa.table, parts), promote_options="permissive"
        )  # integers become floats where some run has floats
        notes = {
            "version": __version__,
            "table": ".".join(filter(None, (tool, name))),
            "title": parts[0].title,
            "columns": json_.encode_columns(parts[0]),
        }
        paths.append(Path(directory) / f"{stem}.parquet")
        with write_atomically(paths[-1], "The tables") as file:
            parquet.write_table(merged.replace_schema_metadata({_NOTES: json.dumps(notes)}), file, compression="zstd")
    return paths

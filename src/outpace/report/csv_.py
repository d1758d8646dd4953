# SPDX-License-Identifier: Apache-2.0
"""Every table of a report as a CSV file (RFC 4180, UTF-8), safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import os
import unicodedata
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from outpace.model import Field, Report, Table, Unit
from outpace.model.files import write_atomically
from outpace.report.file_stems import file_stems
from outpace.report.json_ import encode_cell

_SUFFIXES = {Unit.PS: "_ps", Unit.BYTES: "_bytes", Unit.BYTES_PER_S: "_bytes_per_s"}


def write(report: Report, directory: str | os.PathLike[str]) -> list[Path]:
    """Write one `<tool>.<table>.csv` per table into `directory` (created if missing) and return the
    paths.

    The files are put in place after all are written: existing files remain until then. Missing
    values are empty cells. Raises OutputError where the files cannot be written.
    """
    tables = [(page.id, table) for page in report.pages for table in page.tables()]
    stems = file_stems([(tool, table.name) for tool, table in tables])
    paths = [Path(directory) / f"{stem}.csv" for stem in stems]
    with ExitStack() as files:
        for path, (_, table) in zip(paths, tables, strict=True):
            _write_table(table, files.enter_context(write_atomically(path, "The tables")))
    return paths


def format_header(field: Field) -> str:
    """Return the heading of a column: its name, with the unit where the number
    alone is ambiguous.
    """
    suffix = _SUFFIXES.get(field.unit, "")
    return field.name if not suffix or field.name.endswith(suffix[1:]) else field.name + suffix


def format_cell(value: Any) -> Any:
    """Return a value as a CSV cell; text that a spreadsheet would run as a formula gets a leading
    apostrophe.
    """
    value = encode_cell(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        value = value.replace("\0", "\ufffd")  # the csv module of Python 3.10 refuses NUL characters
        return "'" + value if _is_formula(value) else value
    return value


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may run the text as a formula; leading invisible characters and
    fullwidth forms of the signs are also recognised.
    """
    first = next((c for c in text if unicodedata.category(c)[0] not in "CZ"), "")
    return text[:1] in ("\t", "\r") or unicodedata.normalize("NFKC", first)[:1] in ("=", "+", "-", "@")


def _write_table(table: Table, file: IO[bytes]) -> None:
    columns: Sequence[list[Any]] = [[format_cell(v) for v in column.tolist()] for column in table.columns]
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([format_header(f) for f in table.fields])
    writer.writerows(zip(*columns, strict=True))
    text.detach()

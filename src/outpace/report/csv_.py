"""Every table of a report as a CSV file (RFC 4180, UTF-8), safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import os
import re
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from outpace.model import Field, Report, Table, Unit
from outpace.model.files import whole
from outpace.report.json_ import plain

_LONGEST = 80  # characters of a tool's or a table's name in a file name: most file systems allow 255 in all
_SUFFIXES = {Unit.PS: "_ps", Unit.BYTES: "_bytes", Unit.BYTES_PER_S: "_bytes_per_s"}


def write(report: Report, directory: str | os.PathLike[str]) -> list[Path]:
    """Write one `<tool>.<table>.csv` per table into `directory` (made if missing) and return the paths.

    A file appears whole or not at all. Missing values are empty cells. Raises OutputError where the files cannot be written.
    """
    return [_write_table(table, Path(directory) / name) for name, table in _files(report)]


def header(field: Field) -> str:
    """Heading of a column: its name, with the unit where a number alone would not say it."""
    suffix = _SUFFIXES.get(field.unit, "")
    return field.name if not suffix or field.name.endswith(suffix[1:]) else field.name + suffix


def cell(value: Any) -> Any:
    """A value as a CSV cell; text that a spreadsheet would run as a formula gets a leading apostrophe."""
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        value = value.replace("\0", "\ufffd")  # Python 3.10's csv refuses it
        return "'" + value if _is_formula(value) else value
    return value


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may run a text: what is not seen in front, and wide forms of the signs, do not keep every one from it."""
    first = next((c for c in text if unicodedata.category(c)[0] not in "CZ"), "")
    return text[:1] in ("\t", "\r") or unicodedata.normalize("NFKC", first)[:1] in ("=", "+", "-", "@")


def _write_table(table: Table, path: Path) -> Path:
    columns: Sequence[list[Any]] = [[cell(v) for v in column.tolist()] for column in table.columns]
    with whole(path, "The tables") as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow([header(f) for f in table.fields])
        writer.writerows(zip(*columns, strict=True))
    return path


def _files(report: Report) -> Iterator[tuple[str, Table]]:
    """Every table with a file name of its own, also where a file system does not tell capitals apart."""
    taken: set[str] = set()
    for page in report.pages:
        for table in page.tables():
            stem = f"{_file_name(page.id)}.{_file_name(table.name)}"
            name = next(n for n in _numbered(stem) if n.lower() not in taken)
            taken.add(name.lower())
            yield f"{name}.csv", table


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}-{number}" for number in count(2))


def _file_name(name: str) -> str:
    """A name without what file systems refuse; of a long one the beginning, and a check sum that tells it from others that begin alike."""
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    if len(safe) > _LONGEST:
        safe = f"{safe[: _LONGEST - 9]}-{zlib.crc32(name.encode('utf-8', 'replace')):08x}"
    return safe.lstrip(".") or "_"

"""Every table of a report as a CSV file (RFC 4180, UTF-8), safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from outpace.model import Field, OutputError, Report, Table, Unit
from outpace.report.json_ import plain

_LONGEST = 80  # characters of a tool's or a table's name in a file name: most file systems allow 255 in all
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_SUFFIXES = {Unit.PS: "_ps", Unit.BYTES: "_bytes", Unit.BYTES_PER_S: "_bytes_per_s"}


def write(report: Report, directory: str | os.PathLike[str]) -> list[Path]:
    """Write one `<tool>.<table>.csv` per table into `directory` (made if missing) and return the paths.

    A file appears whole or not at all. Missing values are empty cells. Raises OutputError where the files cannot be written.
    """
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_write_table(table, folder / name) for name, table in _files(report)]
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write CSV files to {folder}: {reason}. Name a folder that you can write to.") from error


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
        return "'" + value if value.startswith(_FORMULA_STARTS) else value
    return value


def _write_table(table: Table, path: Path) -> Path:
    columns: Sequence[list[Any]] = [[cell(v) for v in column.tolist()] for column in table.columns]
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\r\n")
            writer.writerow([header(f) for f in table.fields])
            writer.writerows(zip(*columns, strict=True))
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def _umask() -> int:
    """The process's umask, which can only be read by setting it; `mkstemp` makes files that nobody else can read."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _files(report: Report) -> list[tuple[str, Table]]:
    """Every table with a file name of its own, also where a file system does not tell capitals apart."""
    found: list[tuple[str, Table]] = []
    taken: set[str] = set()
    for page in report.pages:
        for table in page.tables():
            stem = f"{_file_name(page.id)}.{_file_name(table.name)}"
            name = next(n for n in _numbered(stem) if n.lower() not in taken)
            taken.add(name.lower())
            found.append((f"{name}.csv", table))
    return found


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}-{number}" for number in count(2))


def _file_name(name: str) -> str:
    """A name without what file systems refuse; of a long one the beginning, and a check sum that tells it from others that begin alike."""
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    if len(safe) > _LONGEST:
        safe = f"{safe[: _LONGEST - 9]}-{zlib.crc32(name.encode('utf-8', 'replace')):08x}"
    return safe.lstrip(".") or "_"

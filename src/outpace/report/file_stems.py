# SPDX-License-Identifier: Apache-2.0
"""File names of tables: `tool.table`, as findings refer to them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import count

_LONGEST = 80  # maximum characters of a tool's or a table's name in a file name: most file systems allow 255 in total


def file_stems(tables: Sequence[tuple[str, str]]) -> list[str]:
    """Return a unique file stem for each (tool, table name), where the tool may be empty. Stems are
    unique even on a file system that ignores case.
    """
    stems: dict[str, str] = {}
    for tool, table in tables:
        name = ".".join(_file_name(part) for part in (tool, table) if part)
        stem = next(s for s in _iter_numbered(name) if s.lower() not in stems)
        stems[stem.lower()] = stem
    return list(stems.values())


def _iter_numbered(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}-{number}" for number in count(2))


def _file_name(name: str) -> str:
    """Return a name without the characters that file systems refuse; a long one is cut and gets a
    checksum that distinguishes it from others with the same beginning.
    """
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    if len(safe) > _LONGEST:
        safe = f"{safe[: _LONGEST - 9]}-{zlib.crc32(name.encode('utf-8', 'replace')):08x}"
    return safe.lstrip(".") or "_"

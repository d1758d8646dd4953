"""The words of the field, which reports explain where they stand: one text for the pages and for
the documentation.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FILE = Path(__file__).parent / "assets" / "glossary.md"
_ENTRY = re.compile(r"^\*\*(.+?)\.\*\* (.+)$", re.MULTILINE)
_MARKUP = re.compile(r"\*\*|`")


def read_glossary() -> str:
    """The glossary as a page of the documentation."""
    return _FILE.read_text(encoding="utf-8")


@cache
def read_terms() -> tuple[tuple[tuple[str, ...], str], ...]:
    """(names of one thing, what it is), in the order of the glossary."""
    return tuple((tuple(names.split(", ")), _MARKUP.sub("", meaning)) for names, meaning in _ENTRY.findall(read_glossary()))

# SPDX-License-Identifier: Apache-2.0
"""Glossary of the field's terms, one text for reports and for the documentation."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from outpace._lazy import compile_lazily

_FILE = Path(__file__).parent / "assets" / "glossary.md"
_ENTRY = compile_lazily(r"^\*\*(.+?)\.\*\* (.+)$", re.MULTILINE)
_MARKUP = compile_lazily(r"\*\*|`")


def read_glossary() -> str:
    """Return the text of the glossary's documentation page."""
    return _FILE.read_text(encoding="utf-8")


@cache
def read_terms() -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return (names of one term, definition), in the order of the glossary."""
    return tuple((tuple(names.split(", ")), _MARKUP.sub("", meaning)) for names, meaning in _ENTRY.findall(read_glossary()))

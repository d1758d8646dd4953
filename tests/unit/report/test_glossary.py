"""The glossary: one text, for the pages and for the documentation."""

from __future__ import annotations

import re

from outpace.report import glossary


def test_every_paragraph_is_an_entry() -> None:
    entries = [line for line in glossary.read_glossary().splitlines() if line.startswith("**")]
    assert len(entries) == len(glossary.read_terms()) > 30
    assert {"Self time", "Infeed", "Critical path", "Occupancy", "Arithmetic intensity", "Steady step"} <= {
        name for names, _ in glossary.read_terms() for name in names
    }


def test_entries_are_sorted_and_no_name_stands_twice() -> None:
    first = [names[0].lower() for names, _ in glossary.read_terms()]
    assert first == sorted(first)
    every = [name.lower() for names, _ in glossary.read_terms() for name in names]
    assert len(every) == len(set(every))


def test_what_a_page_shows_is_plain_text() -> None:
    for _, meaning in glossary.read_terms():
        assert re.search(r"[*`<>]|\]\(", meaning) is None
        assert meaning.endswith(".") and len(meaning) < 320

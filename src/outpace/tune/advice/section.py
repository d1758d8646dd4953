"""Advice as a section of a page."""

from __future__ import annotations

from collections.abc import Sequence

from outpace.model import Field, Rows, Table, Unit
from outpace.tune.advice.advice import Advice

FIELDS = (
    Field("practice", Unit.TEXT, "what the guides recommend", "Optimisation"),
    Field("here", Unit.TEXT, "what it would mean for this program", "For this program"),
    Field("reason", Unit.TEXT, "why it is advice, and was not tried", "Why it was not tried"),
    Field("source", Unit.TEXT, "the text that recommends it"),
)


def section(advice: Sequence[Advice]) -> Rows | None:
    """A table with a row for each; None for none."""
    if not advice:
        return None
    rows = [(one.title, one.sentence, one.reason, one.source) for one in advice]
    return Rows(Table.from_rows("advice", "Advice, not tried", FIELDS, rows), ("practice", "here", "reason"), limit=20)

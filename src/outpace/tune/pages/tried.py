"""A table of what was tried: its columns, a row, and the same in a line."""

from __future__ import annotations

import math

from outpace.model import Field, Unit
from outpace.tune.climb.outcome import Tried

_NAN = math.nan
TRIED = (
    Field("practice", Unit.TEXT, "what was tried", "Optimisation", key=True),
    Field(
        "outcome",
        Unit.TEXT,
        "kept; not proven; the race's verdict; not applicable; explained, advice: it is left to you; opt-in: it seems faster, and is kept "
        "only where you allow what it changes",
    ),
    Field("ratio", Unit.RATIO, "rate with it / rate without it, in the race where it was tried"),
    Field("low", Unit.RATIO, "lower end of the 95% CI", "From"),
    Field("high", Unit.RATIO, "upper end of it", "To"),
    Field("why", Unit.TEXT, "why it may help here, or why it was not tried"),
    Field("verdict", Unit.TEXT, "what the race says"),
    Field("id", Unit.TEXT, "what programs call it; two that are for the same may have one name", key=True),
)


def row_of(tried: Tried, outcome: str) -> tuple[object, ...]:
    """An optimisation in the columns `TRIED`."""
    return (
        tried.title,
        outcome,
        *(tried.ratio or (_NAN, _NAN, _NAN)),
        tried.why or tried.reason,
        tried.reason if tried.why else "",
        tried.id,
    )


def why_of(tried: Tried) -> str:
    """What an optimisation answers here and what the race said, or why it was not
    raced, in a line.
    """
    return " ".join(
        [f"{tried.title}:", *(f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in (tried.why, tried.reason) if text)]
    )

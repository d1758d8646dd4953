# SPDX-License-Identifier: Apache-2.0
"""A table of what was tried: its columns, a row, and the same in a line."""

from __future__ import annotations

import math

from outpace.model import Row, TableType
from outpace.tune.climb.outcome import Tried

_NAN = math.nan
TRIED = TableType("tried", "What was tried").columns("""
    * practice | text  | what was tried | Optimisation
      outcome  | text  | kept; not proven; the race's verdict; not applicable; explained, advice: it is left to you; opt-in: it seems \
                         faster, and is kept only where you allow what it changes
      ratio    | ratio | rate with it / rate without it, in the race where it was tried
      low      | ratio | lower end of the 95% CI | From
      high     | ratio | upper end of it | To
      why      | text  | why it may help here, or why it was not tried
      verdict  | text  | what the race says
    * id       | text  | what programs call it; two that are for the same may have one name
""")


def row_of(tried: Tried, outcome: str) -> Row:
    """An optimisation in the columns `TRIED`."""
    ratio, low, high = tried.ratio or (_NAN, _NAN, _NAN)
    return TRIED.row(
        practice=tried.title,
        outcome=outcome,
        ratio=ratio,
        low=low,
        high=high,
        why=tried.why or tried.reason,
        verdict=tried.reason if tried.why else "",
        id=tried.id,
    )


def why_of(tried: Tried) -> str:
    """What an optimisation answers here and what the race said, or why it was not
    raced, in a line.
    """
    return " ".join(
        [f"{tried.title}:", *(f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in (tried.why, tried.reason) if text)]
    )

"""What a race says that a change saves."""

from __future__ import annotations

from outpace.model import Saving


def raced(low: float, high: float, assumes: str) -> Saving:
    """The saving of a change that is `low` to `high` times as fast: shares of the time per step as it was."""
    return Saving(max(0.0, 1 - 1 / low), max(0.0, 1 - 1 / high), (), assumes)

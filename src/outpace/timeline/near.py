"""Decisions about steps that were near: with a limit a little higher or lower, other steps would have been found.

A decision is recorded where it is made. Most values lie far from their limits, and nobody needs to know these; of one close to its limit the
report says what would have been otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

from outpace._dataclass import dataclass
from outpace.model import Unit, humanize

_NEAR = 0.1  # of the limit, on either side of it


@dataclass(frozen=True)
class Decision:
    """A value of the profile, held against a limit: which side it is on (`over`), and what each side means, (below, over).

    `what` was measured, with {} where the value stands. Value and limit are told in `unit`, as multiples of `of`.
    """

    what: str
    value: float
    limit: float
    over: bool
    means: tuple[str, str]
    of: float = 1.0
    unit: Unit = Unit.FRACTION

    @property
    def near(self) -> bool:
        """Whether the value lies close to the limit."""
        return abs(self.value - self.limit) < _NEAR * self.limit

    def __str__(self) -> str:
        value, limit = (humanize(float(x / self.of), self.unit) for x in (self.value, self.limit))
        side = "below" if self.over else "from" if self.value < self.limit else "above"
        return f"{self.what.replace('{}', value, 1)} was {self.means[self.over]}; {side} {limit} it would be {self.means[not self.over]}"


def lacks(what: str, part: float, whole: float, least: float, means: tuple[str, str]) -> Decision:
    """Whether a part is less than the share `least` of a whole; `means`: (no, yes). Told is what it lacks, of which a tenth is little."""
    return Decision(what, whole - part, (1 - least) * whole, part < least * whole, means, of=whole)


def near(decisions: Iterable[Decision]) -> list[str]:
    """A sentence for each decision that was near; of those about one thing, for the nearest."""
    told: dict[str, str] = {}
    for decision in sorted((d for d in decisions if d.near), key=lambda d: abs(d.value - d.limit) / d.limit):
        told.setdefault(decision.what, str(decision))
    return list(told.values())

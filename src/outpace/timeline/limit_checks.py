"""Decisions about steps that were near: with a limit a little higher or lower, other steps would
have been found.

A decision is recorded where it is made. Most values lie far from their limits, and nobody needs to
know these; of one close to its limit the report says what would have been otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

from outpace._dataclass import dataclass
from outpace.model import Unit, humanize

_NEAR = 0.1  # of the limit, on either side of it


@dataclass(frozen=True)
class LimitCheck:
    """A value of the profile, held against a limit: which side it is on (`is_over`), and what each
    side means, (below, over).

    `quantity` was measured, with {} where the value stands. Value and limit are told in `unit`, as
    multiples of `reference`.
    """

    quantity: str
    value: float
    limit: float
    is_over: bool
    outcomes: tuple[str, str]
    reference: float = 1.0
    unit: Unit = Unit.FRACTION

    @property
    def is_borderline(self) -> bool:
        """Whether the value lies close to the limit."""
        return abs(self.value - self.limit) < _NEAR * self.limit

    def __str__(self) -> str:
        value, limit = (humanize(float(x / self.reference), self.unit) for x in (self.value, self.limit))
        side = "below" if self.is_over else "from" if self.value < self.limit else "above"
        return f"{self.quantity.replace('{}', value, 1)} was {self.outcomes[self.is_over]}; {side} {limit} it would be {self.outcomes[not self.is_over]}"


def check_share(quantity: str, part: float, whole: float, min_share: float, outcomes: tuple[str, str]) -> LimitCheck:
    """Whether a part is less than the share `min_share` of a whole; `outcomes`: (no, yes). Told is
    what it lacks, of which a tenth is little.
    """
    return LimitCheck(quantity, whole - part, (1 - min_share) * whole, part < min_share * whole, outcomes, reference=whole)


def describe_borderline(checks: Iterable[LimitCheck]) -> list[str]:
    """A sentence for each decision that was near; of those about one thing, for the nearest."""
    told: dict[str, str] = {}
    for decision in sorted((d for d in checks if d.is_borderline), key=lambda d: abs(d.value - d.limit) / d.limit):
        told.setdefault(decision.quantity, str(decision))
    return list(told.values())

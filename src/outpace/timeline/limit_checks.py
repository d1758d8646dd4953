# SPDX-License-Identifier: Apache-2.0
"""Borderline decisions about steps: a limit a little higher or lower would have led to other steps.

Every decision by a limit is recorded. Most values are far from their limits and are not reported;
for a value close to its limit, the report says what the other result would have been.
"""

from __future__ import annotations

from collections.abc import Iterable

from outpace._dataclass import dataclass
from outpace.model import Unit, humanize

_NEAR = 0.1  # distance from the limit, as a share of the limit, within which a decision is borderline


@dataclass(frozen=True)
class LimitCheck:
    """Comparison of a value of the profile with a limit.

    quantity: the measured quantity, with {} in place of the value.
    value, limit: the two compared numbers.
    is_over: which side of the limit the value is on.
    outcomes: result (below, over) the limit.
    reference, unit: value and limit are reported as multiples of `reference`, in `unit`.
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
        """Whether the value is close to the limit."""
        return abs(self.value - self.limit) < _NEAR * self.limit

    def __str__(self) -> str:
        value, limit = (humanize(float(x / self.reference), self.unit) for x in (self.value, self.limit))
        side = "below" if self.is_over else "from" if self.value < self.limit else "above"
        return (
            f"{self.quantity.replace('{}', value, 1)} was {self.outcomes[self.is_over]}; "
            f"{side} {limit} it would be {self.outcomes[not self.is_over]}"
        )


def check_share(quantity: str, part: float, whole: float, min_share: float, outcomes: tuple[str, str]) -> LimitCheck:
    """Return the check whether `part` is less than the share `min_share` of `whole`; `outcomes`:
    (no, yes). The value and limit are what `part` lacks of `whole`, so that borderline is a tenth
    of that.
    """
    return LimitCheck(quantity, whole - part, (1 - min_share) * whole, part < min_share * whole, outcomes, reference=whole)


def describe_borderline(checks: Iterable[LimitCheck]) -> list[str]:
    """Return one sentence per borderline quantity, for its decision closest to the limit."""
    sentences: dict[str, str] = {}
    for decision in sorted((d for d in checks if d.is_borderline), key=lambda d: abs(d.value - d.limit) / d.limit):
        sentences.setdefault(decision.quantity, str(decision))
    return list(sentences.values())

# SPDX-License-Identifier: Apache-2.0
"""How many processes and rounds a comparison gets, before its first round: the cheapest numbers
that would show what is sought.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from statistics import NormalDist

from outpace._dataclass import dataclass
from outpace.stats.random_effects import TYPICAL, Spread
from outpace.stats.ratios import Estimate

MOST_INSTANCES = 4
_NOISE = 0.03  # of a block where nothing is known yet
_Z = 1.96  # standard errors in half of a 95% interval of a normal number
POWER = 0.8  # at which a gain "could have been shown"


@dataclass(frozen=True)
class Noise:
    """Variances of a log rate: between processes of one text, and of one process' block."""

    between: float
    block: float

    @classmethod
    def of(cls, spreads: Sequence[Spread]) -> Noise:
        """What instances showed; one degree of freedom more says what is typical, so that few do
        not say that there is none.
        """
        freedom = math.fsum(spread.freedom for spread in spreads)
        observed = math.fsum(max(0.0, spread.squares - spread.noise) * spread.freedom for spread in spreads)
        block = (
            math.fsum(spread.noise * spread.rounds * spread.freedom for spread in spreads) / freedom if freedom else _NOISE**2
        )
        return cls((observed + TYPICAL**2) / (freedom + 1), block)

    def error(self, instances: int, rounds: int) -> float:
        """Standard error of a log ratio."""
        return math.sqrt((self.between + self.block / rounds) * 2 / instances)


@dataclass(frozen=True)
class Costs:
    """Seconds of one instance of each side: to start one more, and of a round; `running` are there
    already, and there may be `most`.
    """

    start: float
    round: float
    running: int = 2
    most: int = MOST_INSTANCES

    def of(self, instances: int, rounds: int) -> float:
        """Seconds of a comparison."""
        return (instances - self.running) * self.start + instances * rounds * self.round


def plan_comparison(
    noise: Noise, costs: Costs, left: float, effect: float, power: float, least: int, most: int
) -> tuple[int, int]:
    """Return the instances of each side and the rounds: the cheapest that show a log ratio of
    `effect` with a power (a quantile), else the most exact that `left` seconds pay for. `least` and
    `most` bound the rounds.
    """
    counts = product(range(costs.running, max(costs.running, costs.most) + 1), range(least, most + 1))
    choices = [choice for choice in counts if costs.of(*choice) <= left or choice == (costs.running, least)]
    enough = [choice for choice in choices if (_Z + power) * noise.error(*choice) <= effect]
    if enough:
        return min(enough, key=lambda choice: costs.of(*choice))
    return min(choices, key=lambda choice: (noise.error(*choice), costs.of(*choice)))


def minimal_detectable_effect(found: Estimate, power: float = POWER) -> float:
    """Return the smallest gain, as a fraction, that data like these show to be one with the wanted
    power: where there is one of that size, the interval excludes 1 so often (the minimal detectable
    effect of Bloom 1995: half the interval, and the power's quantile of errors).
    """
    return math.expm1(found.half + NormalDist().inv_cdf(power) * found.spread / math.sqrt(found.rounds))


def rounds_needed(spread: float, effect: float, power: float) -> int:
    """Return the number of rounds after which an interval of 95% excludes 1 with the wanted power
    (a quantile), when the true log ratio is `effect`.
    """
    if effect <= 0:
        return 1_000_000
    return math.ceil(((_Z + power) * spread / effect) ** 2)

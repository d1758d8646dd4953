"""How many processes and rounds a comparison gets, before its first round: the cheapest numbers
that would show what is sought.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from outpace._dataclass import dataclass
from outpace.tune.trial.instances import TYPICAL, Spread

MOST_INSTANCES = 4
_NOISE = 0.03  # of a block where nothing is known yet
_LEVEL = 1.96


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
        freedom = math.fsum(each.freedom for each in spreads)
        seen = math.fsum(max(0.0, each.squares - each.noise) * each.freedom for each in spreads)
        block = math.fsum(each.noise * each.rounds * each.freedom for each in spreads) / freedom if freedom else _NOISE**2
        return cls((seen + TYPICAL**2) / (freedom + 1), block)

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


def planned(noise: Noise, costs: Costs, left: float, effect: float, power: float, least: int, most: int) -> tuple[int, int]:
    """Instances of each side and rounds: the cheapest that show a log ratio of `effect` with a
    power (a quantile), else the most exact that `left` seconds pay for. `least` and `most` bound
    the rounds.
    """
    choices = []
    for instances in range(costs.running, max(costs.running, costs.most) + 1):
        for rounds in range(least, most + 1):
            seconds = costs.of(instances, rounds)
            if seconds <= left or (instances, rounds) == (costs.running, least):
                choices.append((instances, rounds, seconds, noise.error(instances, rounds)))
    enough = [each for each in choices if (_LEVEL + power) * each[3] <= effect]
    best = min(enough, key=lambda each: each[2]) if enough else min(choices, key=lambda each: (each[3], each[2]))
    return best[0], best[1]

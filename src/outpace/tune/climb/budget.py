"""What a climb may still spend, and what races cost on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from outpace._dataclass import dataclass
from outpace.tune.trial.record import Experiment

LIMITS_SHARE = 0.07  # of the budget, for the race of the limits
FINAL_SHARE = 0.4  # of the budget, for the last race with its preparations
RACE_SHARE = 0.45  # of what is left, for each further race
ROUNDS = 8  # of a race that tells anything
_BESIDE = 3  # arms beside those that are new: the base, its second self, the model alone

_Variant = TypeVar("_Variant")


@dataclass(eq=False)
class Budget:
    """Seconds, preparations included. preparing: of one new arm, and block: of one block with what is not timed, both as measured last."""

    seconds: float
    clock: Callable[[], float]
    preparing: float = 0.0
    block: float = 0.35

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def spent(self) -> float:
        """Seconds since the climb began."""
        return self.clock() - self.began

    @property
    def left(self) -> float:
        """Seconds for further races: the last one has its share."""
        return self.seconds * (1 - FINAL_SHARE) - self.spent

    def price(self, variants: int) -> float:
        """Seconds that a race of so many new variants needs to tell anything; their base and its model alone may have to be prepared too."""
        return (variants + 2) * self.preparing + ROUNDS * (variants + _BESIDE) * self.block

    def affordable(self, variants: Sequence[_Variant]) -> Sequence[_Variant]:
        """As many of the variants, from the first on, as what is left pays a race for."""
        return variants[: max((n for n in range(1, len(variants) + 1) if self.price(n) <= self.left), default=0)]

    def for_race(self, new: int) -> float:
        """Seconds for a race's rounds, after so many arms have been prepared: a share, or all where the rest pays for no further race."""
        rest = self.left - new * self.preparing
        return RACE_SHARE * rest if (1 - RACE_SHARE) * rest >= self.price(1) else rest

    def for_last(self, new: int) -> float:
        """Seconds for the last race's rounds, after so many arms have been prepared."""
        return self.seconds - self.spent - new * self.preparing

    def learn(self, experiment: Experiment, seconds: float, new: int) -> None:
        """What a race cost that took so long with its preparations, those of so many new arms."""
        if new:
            self.preparing = max(0.0, seconds - experiment.seconds) / new
        if experiment.samples:
            self.block = max(sample.when + sample.seconds for sample in experiment.samples) / len(experiment.samples)

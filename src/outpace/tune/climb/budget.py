"""What a climb may still spend, and what races cost on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from outpace._dataclass import dataclass
from outpace.tune.climb.limits import FRESH, SCREEN
from outpace.tune.trial.record import Experiment

LIMITS_SHARE = 0.07  # of the budget, for the race of the limits
FINAL_SHARE = 0.4  # of the budget, for the last race with its preparations
RACE_SHARE = 0.45  # of what is left, for each further race
DECIDING = FRESH.confirm_rounds  # of the last race, for what is promising
ROUNDS = SCREEN.least_rounds  # of a race that tells anything
_BESIDE = 3  # arms beside those that are new: the base, its second self, the model alone
_LAST, _LAST_NEW = 7, 3  # arms of a last race beside the rungs, where one more change is on top, and how many of them are new

_Variant = TypeVar("_Variant")


@dataclass(eq=False)
class Budget:
    """Seconds, preparations included. preparing: of one new arm, the mean of all so far; block: of one block with what is not timed, as
    measured last."""

    seconds: float
    clock: Callable[[], float]
    preparing: float = 0.0
    block: float = 0.35
    prepared: int = 0  # arms so far
    strict: bool = False  # nothing may be added

    def __post_init__(self) -> None:
        self.began = self.clock()
        self.asked = self.seconds

    @property
    def spent(self) -> float:
        """Seconds since the climb began."""
        return self.clock() - self.began

    @property
    def added(self) -> float:
        """Seconds that were added for the last race."""
        return self.seconds - self.asked

    @property
    def left(self) -> float:
        """Seconds for further races: the last one has its share."""
        return self.seconds * (1 - FINAL_SHARE) - self.spent

    def price(self, variants: int) -> float:
        """Seconds that a race of so many new variants needs to tell anything; their base and its model alone may have to be prepared too."""
        return (variants + 2) * self.preparing + self._rounds(variants + _BESIDE)

    def _rounds(self, arms: int) -> float:
        """Seconds that the fewest rounds take with so many arms."""
        return ROUNDS * arms * self.block

    def affordable(self, variants: Sequence[_Variant]) -> Sequence[_Variant]:
        """As many of the variants, from the first on, as what is left pays a race for."""
        return variants[: max((n for n in range(1, len(variants) + 1) if self.price(n) <= self.left), default=0)]

    def for_race(self, variants: int, new: int) -> float:
        """Seconds for the rounds of a race of so many variants, after so many arms have been prepared: a share, which pays for the fewest
        rounds, or all where the rest pays for no further race."""
        rest = self.left - new * self.preparing
        share = max(RACE_SHARE * rest, self._rounds(variants + _BESIDE))
        return share if rest - share >= self.price(1) else rest

    def for_last(self, new: int) -> float:
        """Seconds for the last race's rounds, after so many arms have been prepared."""
        return self.seconds - self.spent - new * self.preparing

    def extended(self, arms: int, new: int) -> float:
        """Make room for a last race of so many arms, so many of them new, whose rounds decide; by how many seconds the budget grows for that
        (0 where it need not, or must not), at most to the double."""
        missing = DECIDING * arms * self.block - self.for_last(new)
        added = 0.0 if self.strict else max(0.0, min(missing, self.asked - self.added))
        self.seconds += added
        return added

    def pays_one_more(self, rungs: int) -> bool:
        """Whether a last race of so many rungs has the fewest rounds with one more change on top, and what is alone for both."""
        return self.for_last(_LAST_NEW) >= self._rounds(rungs + _LAST)

    def learn(self, experiment: Experiment, seconds: float, new: int) -> None:
        """What a race cost that took so long with its preparations, those of so many new arms."""
        if new:
            spent = self.prepared * self.preparing + max(0.0, seconds - experiment.seconds)
            self.prepared += new
            self.preparing = spent / self.prepared
        blocks = [sample for sample in experiment.samples if sample.stage == 0]  # later ones are longer
        if blocks:
            began, ended = min(each.when for each in blocks), max(each.when + each.seconds for each in blocks)
            self.block = (ended - began) / len(blocks)

"""Which optimisations may still be raced, which of them first, and what a climb may still spend on races."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeVar

from outpace._dataclass import dataclass
from outpace.tune.climb.limits import SCREEN, Limits
from outpace.tune.climb.variant import Variant
from outpace.tune.trial.record import Decision, Experiment, Verdict
from outpace.tune.trial.statistics import Estimate

FAR = 1.5  # times as fast alone as together
LITTLE = 1.15  # times as fast without any input: less is not worth a race of the input, where that is far from its limit
MOST_REFUSED = 2  # races in which an optimisation may stay undecided
MOST_AT_ONCE = 6  # optimisations in one race: more share its rounds
NEVER = -1
DECIDED = (Decision.UNPROVEN, Decision.FAILED, Decision.UNSAFE)  # whatever else is changed


@dataclass(eq=False)
class Choice:
    """open: races that each optimisation may still take part in, of those that were raced and not found faster. undecided: what would be faster
    by its ratio, but was too noisy to say so, with that ratio. refused: what the last race with it could not judge. raced: what took part in a
    race, judged or not."""

    open: dict[str, int] = field(default_factory=dict)
    undecided: dict[str, tuple[float, Variant]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    raced: set[str] = field(default_factory=set)

    def over(self, change: str) -> bool:
        """Whether an optimisation is decided."""
        return self.open.get(change, 1) <= 0

    def next(self, variants: list[Variant], limits: Limits | None) -> list[Variant]:
        """What to race of the variants that fit, the first of them first: those of the bottleneck's part of the step, where `limits` show one;
        once they were raced and judged, the other part's too; then also what usually adds little. What took part in no race yet comes first."""
        large = [variant for variant in variants if not variant.changes[-1].minor]
        groups = (_of_bottleneck(large, limits), large, variants)
        found = next((group for group in groups if any(self._unknown(variant.changes[-1].id) for variant in group)), variants)
        return sorted(found, key=lambda each: (each.changes[-1].minor, each.changes[-1].id in self.raced))[:MOST_AT_ONCE]

    def _unknown(self, change: str) -> bool:
        """Whether no race could judge an optimisation so far."""
        return change not in self.open or change in self.refused

    def learn(self, variant: Variant, verdict: Verdict) -> None:
        """What a race said of a variant's last change."""
        change, decision = variant.changes[-1].id, verdict.decision
        self.raced.add(change)
        self.undecided.pop(change, None)
        self.refused.discard(change)
        if decision is Decision.REFUSED:
            self.open[change] = self.open.get(change, MOST_REFUSED) - 1
            self.refused.add(change)
            found = verdict.estimate
            told = found is not None and found.rounds >= SCREEN.least_rounds and found.ratio >= 1 + SCREEN.effect
            if found is not None and told and not variant.changes[-1].minor:  # the last race cannot tell a few per cent either
                self.undecided[change] = found.ratio, variant
        elif decision in (Decision.SAME, Decision.SEEMS_SLOWER):
            self.open[change] = 0
        elif decision in DECIDED:
            self.open[change] = NEVER

    def reopen(self) -> None:
        """What made no difference may make one now: another part of the step is the bottleneck."""
        for change, left in self.open.items():
            if left == 0:
                self.open[change] = 1

    @property
    def promising(self) -> list[Variant]:
        """What is undecided and may be faster, the fastest first."""
        return [variant for _, variant in sorted(self.undecided.values(), key=lambda found: -found[0])]


def _of_bottleneck(variants: list[Variant], limits: Limits | None) -> list[Variant]:
    """The variants of the part of the step that holds the program back, where the other part alone is far faster; else all."""
    if limits is None:
        return variants
    turned = [variant for variant in variants if not variant.changes[-1].of_input]
    rewritten = [variant for variant in variants if variant.changes[-1].of_input]
    model, reading = limits.model_ratio, _far(limits.input_ratio)
    if rewritten and _far(model) and not reading:
        return rewritten
    if turned and reading and model is not None and model.high < LITTLE:
        return turned
    alone = limits.input_ratio
    by_model = model is not None and alone is not None and model.ratio < alone.ratio
    return turned + rewritten if by_model else rewritten + turned


def _far(alone: Estimate | None) -> bool:
    """Whether a part alone is so much faster than the program that the other part holds it back."""
    return alone is not None and alone.low > FAR


LIMITS_SHARE = 0.07  # of the budget, for the race of the limits
FINAL_SHARE = 0.4  # of the budget, for the last race with its preparations
RACE_SHARE = 0.45  # of what is left, for each further race
ROUNDS = SCREEN.least_rounds  # of a race that tells anything
FEW = SCREEN.few_rounds  # of a race that tells of what is large
_BESIDE = 3  # arms beside those that are new: the base, its second self, the model alone
_LAST, _LAST_NEW = 3, 1  # arms of a last race beside the rungs, where one more change is on top, and how many of them are new
_ALONE, _ALONE_NEW = 4, 2  # and of the model and the input alone, with that change and without it

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
        return (variants + 2) * self.preparing + self._rounds(variants + _BESIDE)

    def _rounds(self, arms: int, rounds: int = ROUNDS) -> float:
        """Seconds that so many rounds take with so many arms, by default the fewest that tell anything."""
        return rounds * arms * self.block

    def affordable(self, variants: Sequence[_Variant]) -> Sequence[_Variant]:
        """As many of the variants, from the first on, as what is left pays a race for."""
        return variants[: max((n for n in range(1, len(variants) + 1) if self.price(n) <= self.left), default=0)]

    def for_race(self, variants: int, new: int) -> float:
        """Seconds for the rounds of a race of so many variants, after so many arms have been prepared: a share, which pays for the fewest
        rounds, or all where the rest pays for no further race, and what tells of large differences in any case."""
        rest, arms = self.left - new * self.preparing, variants + _BESIDE
        share = max(RACE_SHARE * rest, self._rounds(arms))
        return share if rest - share >= self.price(1) else max(rest, self._rounds(arms, FEW))

    def for_last(self, new: int) -> float:
        """Seconds for the last race's rounds, after so many arms have been prepared."""
        return self.seconds - self.spent - new * self.preparing

    def pays_one_more(self, rungs: int, *, alone: bool = True) -> bool:
        """Whether a last race of so many rungs has the fewest rounds with one more change on top; `alone`: beside the model and the input alone
        of both."""
        arms, new = (_LAST + _ALONE, _LAST_NEW + _ALONE_NEW) if alone else (_LAST, _LAST_NEW)
        return self.for_last(new) >= self._rounds(rungs + arms)

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

    def follow(self, experiment: Experiment, arm: str) -> None:
        """The next race is one of this arm and of what is put on top of it: their blocks cost what its own cost in this race."""
        blocks = [sample for sample in experiment.samples if sample.stage == 0]
        spent = [after.when - each.when for each, after in itertools.pairwise(blocks) if each.arm == arm]
        if spent:
            self.block = sum(spent) / len(spent)

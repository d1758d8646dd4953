# SPDX-License-Identifier: Apache-2.0
"""Which optimisations may still be raced, which of them first, and what a climb may still spend on
races.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import field

from outpace._dataclass import dataclass
from outpace.tune.climb.candidates import Candidate
from outpace.tune.climb.limits import SCREEN
from outpace.tune.trial.record import Decision, Experiment, Verdict

MOST_REFUSED = 2  # races in which an optimisation may stay undecided
MOST_AT_ONCE = 6  # optimisations in one race: more share its rounds
NEVER = -1


@dataclass(eq=False)
class Choice:
    """allowed: what the user consents to. open: races that each optimisation may still take part
    in, of those that were raced and not found faster. refused: what the last race with it could not
    judge. raced: what took part in a race, judged or not.
    """

    allowed: frozenset[str] = frozenset()
    open: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    raced: set[str] = field(default_factory=set)

    def over(self, change: str) -> bool:
        """Whether an optimisation is decided."""
        return self.open.get(change, 1) <= 0

    def allows(self, variant: Candidate) -> bool:
        """Whether it may be kept."""
        return not variant.consent or variant.consent in self.allowed

    def next(
        self, variants: list[Candidate], step_seconds: float | None = None, input_share: float | None = None
    ) -> list[Candidate]:
        """What to race of the variants that fit, what could gain most of such a step first; once
        they were raced and judged, also what usually adds little. What took part in no race yet
        comes first, what may not be kept last.
        """
        large = [variant for variant in variants if not variant.minor]
        found = large if any(self._unknown(variant.id) for variant in large) else variants

        def place(each: Candidate) -> tuple[bool, bool, bool, float]:
            expected = each.reach.expected_ratio(step_seconds, input_share, each.share)
            return not self.allows(each), each.minor, each.id in self.raced, -expected

        return sorted(found, key=place)[:MOST_AT_ONCE]

    def _unknown(self, change: str) -> bool:
        """Whether no race could judge an optimisation so far."""
        return change not in self.open or change in self.refused

    def learn(self, variant: Candidate, verdict: Verdict) -> None:
        """What a race said of a variant's last change."""
        change, decision = variant.id, verdict.decision
        self.raced.add(change)
        self.refused.discard(change)
        if decision is Decision.REFUSED:
            self.open[change] = self.open.get(change, MOST_REFUSED) - 1
            self.refused.add(change)
        elif decision in (Decision.SAME, Decision.SEEMS_SLOWER):
            self.open[change] = 0
        elif decision is Decision.FAILED:
            self.open[change] = NEVER

    def close(self, variant: Candidate) -> None:
        """It is not raced again."""
        self.open[variant.id] = NEVER

    def reopen(self) -> None:
        """What made no difference may make one now: another part of the step is the bottleneck."""
        for change, left in self.open.items():
            if left == 0:
                self.open[change] = 1


RACE_SHARE = 0.45  # of what is left, for each further race
ROUNDS = SCREEN.least_rounds  # of a race that tells anything
FEW = SCREEN.few_rounds  # of a race that tells of what is large
_BESIDE = 2  # arms beside those that are new: the base, and its second self


@dataclass(eq=False)
class Budget:
    """Seconds, all included. preparing: of one new arm, the mean of all so far; block: of
    one block with what is not timed, as measured last.
    """

    seconds: float
    clock: Callable[[], float]
    preparing: float = 0.0
    block: float = 0.35
    prepared: int = 0  # arms so far
    began: float = math.nan  # by that clock; now by default

    def __post_init__(self) -> None:
        if math.isnan(self.began):
            self.began = self.clock()

    @property
    def spent(self) -> float:
        """Seconds since the tuning began."""
        return self.clock() - self.began

    @property
    def left(self) -> float:
        """Seconds for further races."""
        return self.seconds - self.spent

    def price(self, variants: int, rounds: int = ROUNDS) -> float:
        """Seconds that a race of so many new variants needs to tell anything, or what so many
        rounds tell; their base may have to be prepared too.
        """
        return (variants + 1) * self.preparing + self._rounds(variants + _BESIDE, rounds)

    def _rounds(self, arms: int, rounds: int = ROUNDS) -> float:
        """Seconds that so many rounds take with so many arms, by default the fewest that tell
        anything.
        """
        return rounds * arms * self.block

    def affordable(self, variants: Sequence[Candidate]) -> Sequence[Candidate]:
        """As many of the variants, from the first on, as what is left pays a race for."""
        return variants[: max((n for n in range(1, len(variants) + 1) if self.price(n) <= self.left), default=0)]

    def within(self, seconds: float) -> int:
        """How many variants can be prepared, with their base, until so many seconds after the
        beginning; one at least.
        """
        return max(1, int((seconds - self.spent) / max(self.preparing, 1e-9)) - 1)

    def for_race(self, variants: int, new: int) -> float:
        """Seconds for the rounds of a race of so many variants, after so many arms have been
        prepared: a share, which pays for the fewest rounds, or all where the rest pays for no
        further race, and what tells of large differences in any case.
        """
        rest, arms = self.left - new * self.preparing, variants + _BESIDE
        share = max(RACE_SHARE * rest, self._rounds(arms))
        return share if rest - share >= self.price(1) else max(rest, self._rounds(arms, FEW))

    def learn(self, experiment: Experiment, seconds: float, new: int) -> None:
        """What a race cost that took so long with its preparations, those of so many new arms."""
        if new:
            spent = self.prepared * self.preparing + max(0.0, seconds - experiment.seconds)
            self.prepared += new
            self.preparing = spent / self.prepared
        blocks = experiment.samples
        if blocks:
            began, ended = min(each.when for each in blocks), max(each.when + each.seconds for each in blocks)
            self.block = (ended - began) / len(blocks)

    def follow(self, experiment: Experiment, arm: str) -> None:
        """The next race is one of this arm and of what is put on top of it: their blocks cost what
        its own cost in this race.
        """
        blocks = experiment.samples
        spent = [after.when - each.when for each, after in itertools.pairwise(blocks) if each.arm == arm]
        if spent:
            self.block = sum(spent) / len(spent)

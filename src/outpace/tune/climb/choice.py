"""Which practices may still be raced, and which of them first."""

from __future__ import annotations

from dataclasses import field

from outpace._dataclass import dataclass
from outpace.tune.climb.limits import SCREEN, Limits
from outpace.tune.climb.variant import Variant
from outpace.tune.trial.record import Decision, Verdict
from outpace.tune.trial.statistics import Estimate

FAR = 1.5  # times as fast alone as together
LITTLE = 1.15  # times as fast without any input: less is not worth a race of the input, where that is far from its limit
MOST_REFUSED = 2  # races in which a practice may stay undecided
MOST_AT_ONCE = 6  # practices in one race: more share its rounds
NEVER = -1
DECIDED = (Decision.UNPROVEN, Decision.FAILED, Decision.UNSAFE)  # whatever else is changed


@dataclass(eq=False)
class Choice:
    """open: races that each practice may still take part in, of those that were raced and not found faster. undecided: what would be faster
    by its ratio, but was too noisy to say so, with that ratio. refused: what the last race with it could not judge."""

    open: dict[str, int] = field(default_factory=dict)
    undecided: dict[str, tuple[float, Variant]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def over(self, change: str) -> bool:
        """Whether a practice is decided."""
        return self.open.get(change, 1) <= 0

    def next(self, variants: list[Variant], limits: Limits | None) -> list[Variant]:
        """What to race of the variants that fit, the first of them first: those of the bottleneck's part of the step, where `limits` show one;
        once they were raced and judged, the other part's too; then also what usually adds little."""
        large = [variant for variant in variants if not variant.changes[-1].minor]
        groups = (_of_bottleneck(large, limits), large, variants)
        found = next((group for group in groups if any(self._unknown(variant.changes[-1].id) for variant in group)), variants)
        return sorted(found, key=lambda each: (each.changes[-1].minor, each.changes[-1].id in self.open))[:MOST_AT_ONCE]

    def _unknown(self, change: str) -> bool:
        """Whether no race could judge a practice so far."""
        return change not in self.open or change in self.refused

    def learn(self, variant: Variant, verdict: Verdict) -> None:
        """What a race said of a variant's last change."""
        change, decision = variant.changes[-1].id, verdict.decision
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
    return variants


def _far(alone: Estimate | None) -> bool:
    """Whether a part alone is so much faster than the program that the other part holds it back."""
    return alone is not None and alone.low > FAR

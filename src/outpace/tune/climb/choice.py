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
_DECIDED = (Decision.UNPROVEN, Decision.FAILED, Decision.UNSAFE)  # whatever else is changed


@dataclass(eq=False)
class Choice:
    """open: races that each practice may still take part in, of those that were raced and not found faster. promising: what would be faster
    by its ratio, but too little was measured to say so, with that ratio."""

    open: dict[str, int] = field(default_factory=dict)
    promising: dict[str, tuple[float, Variant]] = field(default_factory=dict)

    def over(self, change: str) -> bool:
        """Whether a practice is decided."""
        return self.open.get(change, 1) <= 0

    def next(self, variants: list[Variant], limits: Limits | None) -> list[Variant]:
        """What to race of the variants that fit: of the bottleneck's part of the step only, where `limits` show one. What usually adds little
        waits until the others were raced, and comes after them."""
        fits = sorted(_of_bottleneck(variants, limits), key=lambda variant: variant.changes[-1].minor)
        large = [variant for variant in fits if not variant.changes[-1].minor]
        if any(variant.changes[-1].id not in self.open for variant in large):
            fits = large
        return fits[:MOST_AT_ONCE]

    def learn(self, variant: Variant, verdict: Verdict) -> None:
        """What a race said of a variant's last change."""
        change, decision = variant.changes[-1].id, verdict.decision
        self.promising.pop(change, None)
        if decision is Decision.REFUSED:
            self.open[change] = self.open.get(change, MOST_REFUSED) - 1
            ratio = verdict.estimate.ratio if verdict.estimate is not None else 0.0
            if ratio >= 1 + SCREEN.effect and not variant.changes[-1].minor:  # the last race cannot tell a few per cent either
                self.promising[change] = ratio, variant
        elif decision in (Decision.SAME, Decision.SEEMS_SLOWER):
            self.open[change] = 0
        elif decision in _DECIDED:
            self.open[change] = NEVER

    def reopen(self) -> None:
        """What made no difference may make one now: another part of the step is the bottleneck."""
        for change, left in self.open.items():
            if left == 0:
                self.open[change] = 1

    @property
    def most_promising(self) -> Variant | None:
        """The fastest of what is undecided; None where nothing seems to be faster at all."""
        return max(self.promising.values(), key=lambda found: found[0], default=(0.0, None))[1]


def _of_bottleneck(variants: list[Variant], limits: Limits | None) -> list[Variant]:
    """The variants of the part of the step that holds the program back, where the other part alone is far faster; else all."""
    if limits is None:
        return variants
    turned = [variant for variant in variants if variant.changes[-1].knob is not None]
    rewritten = [variant for variant in variants if variant.changes[-1].knob is None]
    model, reading = limits.model_ratio, _far(limits.input_ratio)
    if rewritten and _far(model) and not reading:
        return rewritten
    if turned and reading and model is not None and model.high < LITTLE:
        return turned
    return variants


def _far(alone: Estimate | None) -> bool:
    """Whether a part alone is so much faster than the program that the other part holds it back."""
    return alone is not None and alone.low > FAR

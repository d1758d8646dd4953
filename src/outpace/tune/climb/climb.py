"""The climb: race what answers the bottleneck, keep what is proven, and look again, until the limit or the budget is reached."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.pipeline import PipelineRecorder
from outpace.tune.climb.limits import LEAST, MODEL, Limits, in_memory, limits, raced, unproven
from outpace.tune.climb.variant import Change, Running, Variant
from outpace.tune.data.tree import describe
from outpace.tune.data.verify import Risk
from outpace.tune.knobs import knobs
from outpace.tune.knobs.knob import Applies
from outpace.tune.program.program import Program
from outpace.tune.rewrites import all_rewrites
from outpace.tune.rewrites.attempt import Rewritten, attempt
from outpace.tune.trial.engine import Watch
from outpace.tune.trial.record import Decision, Experiment

START = "as it is"
NEAR = 0.97  # of the limit: what is left is less than races can tell
LIMITS_SHARE = 0.15  # of the budget, for the first race
RACE_SHARE = 0.5  # of what is left, for each further race
FINAL_SHARE = 0.2  # of the budget, for the last race
MOST_REFUSED = 2  # races in which a practice may stay undecided
SETTLED = (Decision.SLOWER, Decision.SAME, Decision.UNPROVEN, Decision.FAILED, Decision.UNSAFE)


@dataclass(frozen=True)
class Tried:
    """A practice and what came of it: the race's decision (or `not here`, `opt-in`) with its reason, why it may help, and its ratio.

    ratio: rate with it / rate without it, and the ends of its 95 % interval; None for what was not raced.
    """

    id: str
    title: str
    decision: str
    reason: str
    why: str = ""
    ratio: tuple[float, float, float] | None = None


@dataclass(frozen=True, eq=False)
class Climbed:
    """The outcome: limits at the start, every practice with what came of it, the best variant, and the last race of it against the start."""

    limits: Limits
    tried: tuple[Tried, ...]
    best: Variant
    races: tuple[Experiment, ...]
    final: Experiment | None
    seconds: float
    ended: str


class Climb:
    """One climb of one program."""

    def __init__(
        self,
        program: Program,
        recorder: PipelineRecorder | None,
        budget: float,
        allowed: frozenset[Risk],
        watch: Watch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`allowed`: the risks that a practice may carry; `budget` in seconds, to which the warm-ups of the last races come on top."""
        self.program, self.recorder, self.budget, self.allowed, self.watch = program, recorder, budget, allowed, watch
        self.clock = clock
        self.began = clock()
        self.tried: dict[str, Tried] = {}
        self.open: dict[str, int] = {}  # races that each practice may still take part in
        self.races: list[Experiment] = []

    def run(self) -> Climbed:
        """Climb. Raises whatever the engine raises for the program itself; a practice that fails is one that was tried."""
        best = start = Variant(START, self.program.dataset)
        self.watch.note("How fast could it be? The model alone, the input alone, and the program as it is.")
        found = limits(self.program, start, LIMITS_SHARE * self.budget, self.watch)
        input_matters = not self._at_model(found)
        if not input_matters:
            self.watch.note("The program runs at the limit of its model, so that the input is left alone.")
        ended = "the budget is used up"
        while self._left() > LEAST:
            candidates = [*(self._rewrites(best) if input_matters else ()), *self._knobs(best)]
            if not candidates:
                ended = "nothing else helps"
                break
            best = self._race(best, candidates)
        final = self._final(start, best) if best is not start else None
        seconds = self.clock() - self.began
        return Climbed(found, tuple(self.tried.values()), best, tuple(self.races), final, seconds, ended)

    def _left(self) -> float:
        """Seconds for further races: the last one has its share."""
        return self.budget * (1 - FINAL_SHARE) - (self.clock() - self.began)

    @staticmethod
    def _at_model(found: Limits) -> bool:
        """Whether training is as fast as the model alone: then no input can make it faster."""
        return found.model_ratio is not None and found.model_ratio.high < 1 / NEAR

    def _rewrites(self, current: Variant) -> Iterator[tuple[Change, Any]]:
        if not self.program.own_pipeline:
            return
        for rewrite in all_rewrites():
            if self._over(rewrite.id, current) or (rewrite.opt_in and Risk.STATISTICAL not in self.allowed):
                continue
            found = attempt(rewrite, describe(current.dataset, self.recorder))
            if not isinstance(found, Rewritten):
                self._note(rewrite.id, rewrite.title, "not here", found.sentence)
            elif found.reason.risk not in self.allowed:
                self._opt_in(rewrite.id, rewrite.title, found.reason.sentence, found.reason.risk)
            else:
                yield (
                    Change(rewrite.id, rewrite.title, found.reason.sentence, found.reason.risk, proof=rewrite.proof),
                    found.dataset,
                )

    def _knobs(self, current: Variant) -> Iterator[tuple[Change, Any]]:
        for knob in knobs():
            if self._over(knob.id, current):
                continue
            applies = knob.applies(self.program)
            if not isinstance(applies, Applies):
                self._note(knob.id, knob.title, "not here", applies.sentence)
            elif applies.risk not in self.allowed or (knob.opt_in and Risk.STATISTICAL not in self.allowed):
                self._opt_in(knob.id, knob.title, applies.sentence, applies.risk)
            else:
                yield Change(knob.id, knob.title, applies.sentence, applies.risk, knob), None

    def _over(self, change: str, current: Variant) -> bool:
        """Whether a practice is applied already, or decided."""
        return self.open.get(change, 1) <= 0 or any(done.id == change for done in current.changes)

    def _note(self, change: str, title: str, decision: str, reason: str) -> None:
        self.tried.setdefault(change, Tried(change, title, decision, reason))

    def _opt_in(self, change: str, title: str, why: str, risk: Risk) -> None:
        self._note(change, title, "opt-in", f"{why.rstrip('.')}. It is {risk.value}: allow that to have it tried.")

    def _race(self, best: Variant, candidates: list[tuple[Change, Any]]) -> Variant:
        """Race candidates against the best so far; the fastest that is proven, or the best so far."""
        variants = {change.title: (change, best.with_change(change, dataset)) for change, dataset in candidates}
        self.watch.note(f"Racing {', '.join(variants)} against {best.name}.")
        arms = [unproven(Running(self.program, best, best.name).arm())]
        arms += [Running(self.program, variant, name).arm() for name, (_, variant) in variants.items()]
        experiment = raced(arms, best.name, RACE_SHARE * self._left(), self.watch)
        self.races.append(experiment)
        for verdict in experiment.verdicts:
            change, _ = variants[verdict.arm]
            left = self.open.get(change.id, MOST_REFUSED)
            self.open[change.id] = 0 if verdict.decision in SETTLED else left - (verdict.decision is Decision.REFUSED)
            estimate = verdict.estimate
            ratio = (estimate.ratio, estimate.low, estimate.high) if estimate is not None else None
            self.tried[change.id] = Tried(change.id, change.title, verdict.decision.value, verdict.reason, change.why, ratio)
        won = [v for v in experiment.verdicts if v.decision is Decision.FASTER and v.estimate is not None]
        if not won:
            return best
        return variants[max(won, key=lambda v: v.estimate.ratio if v.estimate else 0.0).arm][1]

    def _final(self, start: Variant, best: Variant) -> Experiment:
        """The start, the best, and the model alone with the best's knobs, side by side on fresh rounds."""
        self.watch.note(f"Before and after: {best.name}.")
        alone = Variant(MODEL, in_memory(self.program), tuple(change for change in best.changes if change.knob is not None))
        arms = [Running(self.program, start, START).arm(), Running(self.program, best, best.name).arm()]
        arms.append(unproven(Running(self.program, alone, MODEL).arm()))
        return raced(arms, START, FINAL_SHARE * self.budget, self.watch)

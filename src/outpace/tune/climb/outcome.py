"""What a climb found: optimisations tried, the ladder of what was kept, limits, and races."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from outpace._dataclass import dataclass
from outpace.tune.climb.expected import Expected
from outpace.tune.climb.limits import Beside, Limits
from outpace.tune.climb.variant import Change, Variant
from outpace.tune.trial.record import Decision, Experiment, Phase, Verdict
from outpace.tune.trial.statistics import Estimate, compare

if TYPE_CHECKING:
    from outpace.capture.pipeline import PipelineRecorder
    from outpace.model.table import Table
    from outpace.tune.batch import BatchSizes
    from outpace.tune.optimisations.advice import Advice
    from outpace.tune.program.program import Program

NOT_RACED = "not raced"
NOT_PROVEN = "not proven"
USED_UP = "the budget was used up before; give it a larger one"
ALL_BUT_LAST = "the part of the budget that is not kept for the last race is used up"  # why a climb ended


@dataclass(frozen=True)
class Tried:
    """An optimisation and its outcome: the decision (or the word of its answer, `not raced`, `not proven`), its reason, why it may help.

    ratio: rate with it / rate without it, and the ends of its 95% CI; None for what was not raced.
    """

    id: str
    title: str
    decision: str
    reason: str
    why: str = ""
    ratio: tuple[float, float, float] | None = None

    @classmethod
    def judged(cls, id: str, title: str, verdict: Verdict, why: str) -> Tried:
        """What a race says of an optimisation."""
        found = verdict.estimate
        ratio = (found.ratio, found.low, found.high) if found is not None else None
        return cls(id, title, verdict.decision.value, verdict.reason, why, ratio)

    def kept(self, rung: Rung) -> Tried:
        """The same with what the last race says of it, where it stands in the ladder."""
        if rung.step is None:
            return self
        ratio, low, high = rung.step.ratio, rung.step.low, rung.step.high
        said = f"speed-up {ratio:.2f}x (95% CI {low:.2f} to {high:.2f}) over the program without it, "
        said += f"on {rung.step.rounds} fresh rounds of the last race"
        return replace(self, reason=said, ratio=(ratio, low, high))

    def unproven(self) -> Tried:
        """The same where the last race did not keep it."""
        return replace(self, decision=NOT_PROVEN, reason=f"{self.reason} The last race, on fresh rounds, did not prove it")


@dataclass(frozen=True, eq=False)
class Rung:
    """One step of the ladder, on the fresh rounds of the last race: a change, and the rate with it and all before it.

    total: ratio to the program as it was; step: ratio to the rung before; None where too few rounds were run. rate: steps per second.
    """

    change: Change
    rate: float
    total: Estimate | None
    step: Estimate | None


@dataclass(frozen=True, eq=False)
class Climbed:
    """The outcome.

    limits: at the start, and reached: those of the best variant (None where the last race kept less than it measured the limits of, or
    only an input was read). tried: every optimisation. ladder: the changes that were kept, in order. final: the last race, on fresh rounds;
    None where nothing seemed or might be faster. ended: why the climb ended, as a clause. expected: what was predicted before any optimisation
    was raced. beside: of a model whose step is not tuned, how fast it is beside its input.
    lines: of a loop's script, with what was kept, where a step's time goes (`limits.LINES`).
    """

    limits: Limits | None
    reached: Limits | None
    tried: tuple[Tried, ...]
    best: Variant
    ladder: tuple[Rung, ...]
    races: tuple[Experiment, ...]
    final: Experiment | None
    seconds: float
    ended: str
    expected: tuple[Expected, ...] = ()
    beside: Beside | None = None
    lines: Table | None = None

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """All races in their order, the last one included."""
        return self.races if self.final is None else (*self.races, self.final)

    @property
    def gain(self) -> Estimate | None:
        """Rate of the best variant / rate as it was, on the fresh rounds of the last race; None where nothing was kept or confirmed."""
        if self.final is None or not self.best.changes:
            return None
        verdict = self.final.verdict(self.best.name)
        return verdict.estimate if verdict.decision is Decision.FASTER else None

    @property
    def break_even_steps(self) -> int | None:
        """Steps after which what was kept has made up for its longer first call (tracing, compiling); None where it is not clearly longer."""
        return self.final.verdict(self.best.name).break_even_steps if self.final is not None and self.gain is not None else None


@dataclass(frozen=True, eq=False)
class Tuning:
    """A search as data: the climb, and the recipe for what was kept.

    advice: optimisations that fit and were not tried. batches: larger batches, where they were asked for. parts: those of the model that take
    the step's time, where it holds the program back. recorder: knows the lines of the pipeline.
    """

    program: Program
    climbed: Climbed
    recipe: tuple[str, ...]
    advice: tuple[Advice, ...] = ()
    batches: BatchSizes | None = None
    recorder: PipelineRecorder | None = None
    parts: Table | None = None

    @property
    def work(self) -> str:
        """What was tuned, in a word."""
        return "input" if not self.program.trains else "training"

    @property
    def best(self) -> Variant:
        """The fastest variant that was proven; the program as it is where there is none."""
        return self.climbed.best


def ladder_of(final: Experiment, rungs: Sequence[Variant]) -> tuple[Rung, ...]:
    """The rungs that the last race keeps.

    Rungs at the top go that are not proven to be faster than the one below and than the start.
    """
    found, before = [], final.reference(Phase.CONFIRM)
    for rung in rungs:
        rates = final.rates(rung.name, Phase.CONFIRM)
        verdict = final.verdict(rung.name)
        found.append(Rung(rung.changes[-1], verdict.rate or 0.0, verdict.estimate, compare(before, rates)))
        before = rates
    while found and not (_adds(found) and final.verdict(rungs[len(found) - 1].name).decision is Decision.FASTER):
        found.pop()
    return tuple(found)


def _adds(rungs: Sequence[Rung]) -> bool:
    """Whether the top rung is faster than the one below."""
    step = rungs[-1].step
    return len(rungs) == 1 or (step is not None and step.low > 1)

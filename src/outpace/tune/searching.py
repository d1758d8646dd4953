"""One search in the process of one program, which ends with it: the climb, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outpace.capture.pipeline import PipelineRecorder
from outpace.capture.sources import SourceRecorder
from outpace.model.errors import UsageError
from outpace.tune.climb.climb import Climb
from outpace.tune.climb.limits import slow_parts
from outpace.tune.climb.outcome import Tuning
from outpace.tune.data.effects import effects
from outpace.tune.data.tree import describe
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations import all_rewrites, knobs
from outpace.tune.optimisations.advice import advice_for
from outpace.tune.optimisations.knob import serves
from outpace.tune.optimisations.optimisation import Answer, Applies, NeedsConsent, Optimisation, asked
from outpace.tune.patch.make import recipe
from outpace.tune.program.program import Program
from outpace.tune.trial.engine import Watch
from outpace.tune.trial.interrupts import Interrupts

if TYPE_CHECKING:
    from outpace.tune.batch import BatchSizes

BATCHES_SHARE = 0.2  # of the budget, for larger batches where they are asked for
SAFE = frozenset({Risk.EXACT, Risk.REORDERED})


def search(
    program: Program,
    recorder: PipelineRecorder | None,
    budget: float,
    watch: Watch,
    sources: SourceRecorder | None = None,
    *,
    statistical: bool = False,
    batch_sizes: bool = False,
    only_limits: bool = False,
) -> Tuning:
    """Climb, within `budget` seconds. statistical: also what may change results. batch_sizes: measure larger batches too, for a fifth of the
    budget. only_limits: see `Climb`. sources: names the model's parts. Raises CaptureError where the program itself fails in its trials."""
    share = BATCHES_SHARE * budget if batch_sizes and program.model is not None else 0.0
    allowed = SAFE | {Risk.STATISTICAL} if statistical else SAFE
    climb = Climb(program, recorder, budget - share, frozenset(allowed), watch, only_limits=only_limits)
    with Interrupts() as interrupts:
        climbed = climb.run()
        program = climb.program
        batches = _batches(program, share, watch) if share else None
        parts = slow_parts(program, climbed.limits, sources)
    interrupts.check()
    advice = advice_for(program, climbed.limits) if program.model is not None else ()
    return Tuning(program, climbed, recipe(program, climbed.best, recorder), advice, batches, recorder, parts)


def _batches(program: Program, budget: float, watch: Watch) -> BatchSizes | None:
    """Larger batches; None, which is said, where the program's cannot be repeated."""
    from outpace.tune.batch import race_batch_sizes

    try:
        return race_batch_sizes(program, budget, watch)
    except UsageError as error:
        watch.note(f"Larger batches are not tried: {error}")
        return None


def plan(program: Program, recorder: PipelineRecorder | None) -> tuple[str, ...]:
    """What a tuning would try and what it would run besides training steps, without running anything but a few elements of the input."""
    lines = []
    if program.own_pipeline:
        pipeline = describe(program.dataset, recorder)
        lines += [f"pipeline: {line}" for line in pipeline.lines()]
        lines += [f"side effect: {effect}" for effect in effects(pipeline)]
        lines += [_line(rewrite, asked(rewrite, pipeline, SAFE)) for rewrite in all_rewrites()]
    lines += [_line(knob, asked(knob, program, SAFE)) for knob in knobs() if serves(knob, program)]
    return tuple(lines)


def _line(each: Optimisation[Any], answer: Answer) -> str:
    word = {Applies: "would try", NeedsConsent: "only with --allow statistical"}.get(type(answer), answer.word)
    return f"{word}: {each.title}: {answer.sentence}"

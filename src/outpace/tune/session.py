"""One tuning of one program: the climb, with everything put back afterwards, and what came of it."""

from __future__ import annotations

from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.pipeline import PipelineRecorder
from outpace.tune.climb.climb import Climb, Climbed
from outpace.tune.climb.variant import Variant
from outpace.tune.data.effects import effects
from outpace.tune.data.tree import describe
from outpace.tune.data.verify import Risk
from outpace.tune.knobs import knobs
from outpace.tune.knobs.knob import Applies
from outpace.tune.program.program import Program
from outpace.tune.program.state import Snapshot
from outpace.tune.rewrites import all_rewrites
from outpace.tune.rewrites.rewrite import Patch, Reason
from outpace.tune.trial.engine import Watch

BUDGET = 90.0
SAFE = frozenset({Risk.EXACT, Risk.REORDERED})


@dataclass(frozen=True, eq=False)
class Tuned:
    """What came of a tuning: the climb, the recipe for what was kept, and whether everything was put back (`left`: what was not)."""

    program: Program
    climbed: Climbed
    recipe: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def best(self) -> Variant:
        """The fastest variant that was proven; the program as it is where there is none."""
        return self.climbed.best


def tune_program(
    program: Program,
    recorder: PipelineRecorder | None = None,
    *,
    budget: float = BUDGET,
    allow_statistical: bool = False,
    watch: Watch | None = None,
) -> Tuned:
    """Climb, and put the model, its optimizer and the random numbers back as they were, whatever happens.

    KeyboardInterrupt passes through, after everything was put back.
    """
    snapshot = Snapshot.of(program.model)
    allowed = SAFE | {Risk.STATISTICAL} if allow_statistical else SAFE
    climb = Climb(program, recorder, budget, frozenset(allowed), watch or Watch())
    try:
        climbed = climb.run()
    finally:
        snapshot.restore()
    return Tuned(program, climbed, recipe(program, climbed.best, recorder), snapshot.differences())


def recipe(program: Program, best: Variant, recorder: PipelineRecorder | None) -> tuple[str, ...]:
    """How to make the changes of a variant in the source, one sentence each, with the line where it is known."""
    said = []
    rewrites = {rewrite.id: rewrite for rewrite in all_rewrites()}
    dataset = describe(program.dataset, recorder)
    for change in best.changes:
        if change.knob is not None:
            words = [f"{name}={value}" for name, value in change.knob.keywords(program).items()]
            said.append(f"compile(..., {', '.join(words)})" if words else f"{change.title}: {change.knob.practice}")
        else:
            patches = rewrites[change.id].patch(dataset)
            said += [_spelled(patch, change.title, recorder) for patch in patches] or [f"{change.title}: {change.why}"]
    return tuple(said)


def plan(program: Program, recorder: PipelineRecorder | None) -> tuple[str, ...]:
    """What a tuning would try and what it would run besides training steps, without running anything but a few elements of the input."""
    lines = []
    if program.own_pipeline:
        pipeline = describe(program.dataset, recorder)
        lines += [f"pipeline: {line}" for line in pipeline.lines()]
        lines += [f"side effect: {effect}" for effect in effects(pipeline)]
        for rewrite in all_rewrites():
            found = rewrite.applies(pipeline)
            word = _word(found.risk, rewrite.opt_in) if isinstance(found, Reason) else "not here"
            lines.append(f"{word}: {rewrite.title}: {found.sentence}")
    for knob in knobs():
        applies = knob.applies(program)
        word = _word(applies.risk, knob.opt_in) if isinstance(applies, Applies) else "not here"
        lines.append(f"{word}: {knob.title}: {applies.sentence}")
    return tuple(lines)


def _word(risk: Risk, opt_in: bool) -> str:
    return "only with --allow statistical" if opt_in or risk not in SAFE else "would try"


def train_on(tuned: Tuned, arguments: dict[str, Any]) -> dict[str, Any]:
    """Turn the winner's knobs for good, and return the arguments of `fit` with its data set."""
    model = tuned.program.model
    for knob in tuned.best.knobs:
        knob.applied(tuned.program).__enter__()  # never left: that is what applying means
    model.train_function = None
    return {**arguments, "x": tuned.best.dataset} if tuned.program.own_pipeline else arguments


def _spelled(patch: Patch, title: str, recorder: PipelineRecorder | None) -> str:
    stage = (
        next((s for s in recorder.stages if s.id == patch.call), None)
        if recorder is not None and patch.call is not None
        else None
    )
    where = f"{stage.file}:{stage.line} {stage.op}" if stage is not None else title
    parts = [f"add {', '.join(f'{k}={v}' for k, v in patch.keywords.items())}"] if patch.keywords else []
    if patch.insert:
        parts.append(f"put {patch.insert} after it")
    if patch.remove:
        parts.append("take it out here")
    if patch.note:
        parts.append(patch.note)
    return f"{where}: {'; '.join(parts) or title}"

"""One tuning of one program: the climb, with everything put back afterwards, and what came of it; `outpace.tune(model, data)` and
`outpace.tune_dataset(data)` are the same from Python, in a script or a notebook.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

from outpace.capture.pipeline import PipelineRecorder
from outpace.capture.sources import SourceRecorder
from outpace.model.errors import UsageError
from outpace.tune.climb.climb import Climb
from outpace.tune.climb.limits import slow_parts
from outpace.tune.climb.outcome import Tuning
from outpace.tune.data.isolated import dispose
from outpace.tune.data.tree import describe
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations import all_rewrites, knobs
from outpace.tune.optimisations.advice import advice_for
from outpace.tune.optimisations.knob import serves
from outpace.tune.optimisations.optimisation import Answer, Applies, NeedsConsent, Optimisation, asked
from outpace.tune.pages.progress import watching
from outpace.tune.patch.make import recipe
from outpace.tune.program.outside import effects
from outpace.tune.program.program import Program
from outpace.tune.program.state import Snapshot
from outpace.tune.trial.engine import Watch
from outpace.tune.trial.interrupts import Interrupts

if TYPE_CHECKING:
    from outpace.model.page import Page
    from outpace.model.report import Report
    from outpace.tune.batch import BatchSizes
    from outpace.tune.patch import SourcePatch

BUDGET = 140.0  # seconds, preparations included: enough for about three races of half a dozen variants
BATCHES_SHARE = 0.2  # of the budget, for larger batches where they are asked for
SAFE = frozenset({Risk.EXACT, Risk.REORDERED})


class Tuned(Tuning):
    """What came of a tuning, as its user has it: printed, applied, or written into the source."""

    def patch(self, script: str | None = None) -> SourcePatch:
        """What was kept, as a change of the user's source; nothing is written. Without `script` it is for the file that calls.

        Raises UsageError when libcst is not installed.
        """
        from outpace.tune.patch import patch_of

        return patch_of(self.program, self.best, self.recorder, script)

    @property
    def dataset(self) -> Any:
        """The data set of the fastest variant."""
        return self.best.dataset

    def apply(self) -> Any:
        """Turn the winner's knobs on in the model for good; returns the data set to train with."""
        for knob in self.best.knobs:
            knob.applied(self.program).__enter__()  # never left: that is what applying means
        if self.program.model is not None:
            self.program.model.train_function = None
        return self.dataset if self.program.source.py_dataset is None else self.program.source.x

    @property
    def page(self) -> Page:
        """The outcome as a page that every renderer shows."""
        from outpace.tune.pages.tuning import page_of

        return page_of(self)

    def report_of(self, title: str, *others: Page) -> Report:
        """The same as a report, with other pages behind it."""
        from outpace.model.report import Report
        from outpace.tune.pages.tuning import findings_of

        page = self.page
        return Report(title, page.headline, (), findings_of(self), (page, *others))

    def __str__(self) -> str:
        from outpace.report import terminal

        report = self.report_of(self.work)
        return terminal.render(report, tools=[page.id for page in report.pages]).strip("\n")

    def _repr_html_(self) -> str:
        return self.page._repr_html_()


def tune_program(
    program: Program,
    recorder: PipelineRecorder | None = None,
    *,
    budget: float = BUDGET,
    allow_statistical: bool = False,
    batch_sizes: bool = False,
    only_limits: bool = False,
    watch: Watch | None = None,
    sources: SourceRecorder | None = None,
) -> Tuned:
    """Climb. Where the program keeps its state (`Program.of`), the model, its optimizer and the random numbers are put back as they were,
    whatever happens.

    `batch_sizes`: measure larger batches too, for a fifth of the budget. `only_limits`: see `Climb`. `sources`: names the
    model's parts. Raises CaptureError where the program itself fails in its trials. KeyboardInterrupt passes through, after everything was
    put back.
    """
    share = BATCHES_SHARE * budget if batch_sizes and program.model is not None else 0.0
    snapshot = Snapshot.of(program.model) if program.outside is not None else None
    allowed = SAFE | {Risk.STATISTICAL} if allow_statistical else SAFE
    climb = Climb(program, recorder, budget - share, frozenset(allowed), watch or Watch(), only_limits=only_limits)
    left: tuple[str, ...] = ()
    with Interrupts() as interrupts:
        try:
            climbed = climb.run()
            program = climb.program
            batches = _batches(program, share, watch) if share else None
            parts = slow_parts(program, climbed.limits, sources)
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)  # they hold iterators that read ahead
            raise
        finally:
            if snapshot is not None:
                with interrupts.shield():
                    left = _put_back(climb, program, snapshot)
    interrupts.check()
    advice = advice_for(program, climbed.limits) if program.model is not None else ()
    said = recipe(program, climbed.best, recorder)
    return Tuned(program, climbed, said, left, advice, batches, recorder, parts)


def _put_back(climb: Climb, program: Program, snapshot: Snapshot) -> tuple[str, ...]:
    """Put everything back; what could not be, in words."""
    _let_go(climb)
    left = program.outside.restore() if program.outside is not None else ()
    snapshot.restore()
    left = (*snapshot.differences(), *left)
    if left:  # an interrupted tuning has no page that could say it
        climb.watch.note(f"Not put back: {', '.join(left)}.")
    return left


def _let_go(climb: Climb) -> None:
    """End the trials' iterators: they read ahead, and would go on changing what is put back now."""
    runners = [running.runner for running in climb.running.values()]
    for running in climb.running.values():
        running.runner = None
    climb.running.clear()
    dispose(runners)


def _batches(program: Program, budget: float, watch: Watch | None) -> BatchSizes | None:
    """Larger batches; None, which is said, where the program's cannot be repeated."""
    from outpace.tune.batch import race_batch_sizes

    try:
        return race_batch_sizes(program, budget, watch)
    except UsageError as error:
        (watch or Watch()).note(f"Larger batches are not tried: {error}")
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


def tune(
    model: Any, x: Any, *, budget: float = BUDGET, allow_statistical: bool = False, progress: bool = True, **arguments: Any
) -> Tuned:
    """Find what makes `model.fit(x, **arguments)` faster, and prove it.

    The model must be compiled; nothing is trained: model, optimizer and random numbers are put back bit by bit. `budget` is in seconds.
    What may change results by rounding or by other random numbers is only tried with `allow_statistical`. Print the result, or show it in a
    notebook; `result.apply()` turns the winner on. Raises UsageError where there is nothing that can be tuned, with the reason.
    """
    return _tuned(Program.of(model, x, **arguments), budget, allow_statistical, progress)


def tune_dataset(dataset: Any, *, budget: float = BUDGET, allow_statistical: bool = False, progress: bool = True) -> Tuned:
    """Find what makes a `tf.data.Dataset` faster, whoever reads it: an own training loop, or JAX.

    `result.dataset` is the fastest that was proven. Options and errors as in `tune`.
    """
    if "tensorflow" not in sys.modules or not isinstance(dataset, sys.modules["tensorflow"].data.Dataset):
        raise UsageError(f"A tf.data.Dataset can be tuned, and this is a {type(dataset).__name__}.")
    return _tuned(Program.of_input(dataset), budget, allow_statistical, progress)


def _tuned(program: Program, budget: float, allow_statistical: bool, progress: bool) -> Tuned:
    with watching(progress) as watch:
        return tune_program(program, budget=budget, allow_statistical=allow_statistical, watch=watch)

"""How fast a program could be: the model alone, the input alone, and both together; and the parts of a model, or the lines of a loop, that take
most of its step."""

from __future__ import annotations

import bisect
import glob
import importlib
import linecache
import math
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.capture.sampler import FrameSampler
from outpace.capture.sources import SourceRecorder
from outpace.capture.steps_keras import of_keras_2, steps_per_execution
from outpace.metrics.model_parts import model_parts
from outpace.metrics.python_samples import OUTPACE, YOURS, places_of
from outpace.metrics.python_time import interval
from outpace.metrics.source_line import source_line
from outpace.model import Field, Table, Unit
from outpace.model.errors import CaptureError
from outpace.store.record import PythonSamples
from outpace.timeline import Run
from outpace.trace import open_trace
from outpace.tune.climb.variant import Variant
from outpace.tune.loop.stepper import LoopStepper, finished
from outpace.tune.program.program import Program
from outpace.tune.program.source import Feed
from outpace.tune.program.stepper import Stepper
from outpace.tune.trial.arm import Arm
from outpace.tune.trial.engine import Watch, run_experiment
from outpace.tune.trial.record import Experiment, Phase, Protocol
from outpace.tune.trial.statistics import Estimate, compare

if TYPE_CHECKING:
    from outpace.tune.loop.loop import Loop

TODAY, MODEL, INPUT = "as it is", "model alone", "input alone"
MATTERS = 0.03  # of a step: less is called no difference
LEAST = 4.0  # seconds; a race that is given less proves nothing


@dataclass(frozen=True)
class Limits:
    """Rates in steps per second, and ratios to the variant's own rate with their 95% CIs.

    rate: the variant as it trains. model: the same steps on a batch that is held in memory. input: the pipeline, read without training.
    turns: both one after the other, as where each alone fills the cores that they share. bound: the most that both together can reach,
    with perfect overlap: neither is faster than alone, and the processor seconds of both must fit into the cores. decided: which of the
    three sets the bound, `model`, `input` or `cores`. Ratios are None where an arm failed.
    """

    rate: float
    model: float
    input: float
    turns: float
    bound: float
    decided: str
    model_ratio: Estimate | None
    input_ratio: Estimate | None
    turns_ratio: Estimate | None
    bound_ratio: Estimate | None

    @property
    def step_seconds(self) -> float | None:
        """Of a step as it trains; None where no round told."""
        return 1 / self.rate if self.rate > 0 else None

    @property
    def input_hidden(self) -> bool:
        """Whether reading takes less of a step than counts, even where both take turns."""
        return self.input_ratio is not None and self.input_ratio.low > 1 / MATTERS

    @property
    def reached(self) -> Estimate | None:
        """Rate as a share of the bound, with its interval."""
        return _inverse(self.bound_ratio)

    @property
    def of_turns(self) -> Estimate | None:
        """Rate as a share of both parts taking turns."""
        return _inverse(self.turns_ratio)


def _inverse(found: Estimate | None) -> Estimate | None:
    return None if found is None else Estimate(1 / found.ratio, 1 / found.high, 1 / found.low, found.rounds, found.spread)


def in_memory(program: Program) -> Any:
    """What the model is run on alone: a data set of the first batch, over and over, or the calls that a loop has made which reads no tf.data;
    None where there is nothing of the kind."""
    if program.loop is not None and not program.limited:
        return program.loop.calls if program.loop.calls.made else None
    return sys.modules["tensorflow"].data.Dataset.from_tensors(program.spare)


def model_alone(variant: Variant, memory: Any, name: str = MODEL) -> Variant:
    """A variant's training steps on a batch that is held in memory (`memory`: that data set), with its knobs."""
    return Variant(name, memory, tuple(change for change in variant.changes if not change.of_input))


def input_alone(variant: Variant, name: str = INPUT) -> Variant:
    """What a variant reads, without its training."""
    return Variant(
        name, variant.dataset, tuple(change for change in variant.changes if change.knob is not None and change.of_input)
    )


SCREEN, FRESH = Protocol(confirm=False, search_rounds=12), Protocol(search=False)


def raced(
    arms: list[Arm],
    baseline: str,
    budget: float,
    watch: Watch | None,
    protocol: Protocol,
    seed: int = 0,
    again: Arm | None = None,
    enough: Callable[[Experiment], bool] | None = None,
) -> Experiment:
    """A race of a climb: Ctrl-C ends the climb with it. `again`: a second instance of the baseline, for what two instances of the same
    program differ by. `enough`: where its search may end. Raises CaptureError where the program as it is fails."""
    experiment = run_experiment(
        arms,
        baseline=baseline,
        again=again,
        budget=max(LEAST, budget),
        watch=watch,
        protocol=protocol,
        seed=seed,
        enough=enough,
    )
    if experiment.interrupted:
        raise KeyboardInterrupt
    failure = experiment.trial(baseline).failure
    if baseline == TODAY and failure is not None:
        raise CaptureError(f"The program as it is fails in its trials, so there is nothing to compare with: {failure}.")
    return experiment


def limits_of(experiment: Experiment, rate: dict[int, float], alone: tuple[str, str] = (MODEL, INPUT)) -> Limits:
    """The limits that a race on fresh rounds shows for a variant with these rates by round. alone: the arms of its model and of its input."""
    model, reading = (experiment.rates(name, Phase.CONFIRM) for name in alone)
    turns = {at: 1 / (1 / model[at] + 1 / reading[at]) for at in model.keys() & reading.keys()}
    bounds = _bounds(experiment, alone)
    decided = min((name for name in bounds if bounds[name]), key=lambda name: middle(bounds[name]), default="")
    bound = bounds.get(decided, {})
    return Limits(
        middle(rate),
        middle(model),
        middle(reading),
        middle(turns),
        middle(bound),
        decided,
        compare(rate, model),
        compare(rate, reading),
        compare(rate, turns),
        compare(rate, bound),
    )


def _bounds(experiment: Experiment, alone: tuple[str, str]) -> dict[str, dict[int, float]]:
    """What bounds the rate, by name and round."""
    cores = experiment.environment.cores
    model, reading = (experiment.rates(name, Phase.CONFIRM) for name in alone)
    training, waiting = (experiment.cpu(name, Phase.CONFIRM) for name in alone)
    seconds = {at: training[at] + waiting[at] for at in training.keys() & waiting.keys()}
    return {"model": model, "input": reading, "cores": {at: cores / each for at, each in seconds.items() if each > 0}}


def middle(rates: dict[int, float]) -> float:
    """Geometric mean; NaN for none."""
    return math.exp(math.fsum(map(math.log, rates.values())) / len(rates)) if rates else math.nan


_FIRST = 3  # calls that trace and compile
_MOST = 1_000_000  # steps of an epoch that a callback ends


@dataclass(frozen=True)
class Beside:
    """Rates in steps per second: the model alone, on a batch in memory, and the program's input alone."""

    model: float
    input: float

    @property
    def most(self) -> float:
        """The largest share of a step that reading may take: all of it, one after the other with the model."""
        return self.model / (self.model + self.input)

    @property
    def matters(self) -> bool:
        """Whether another input could make a step shorter by what counts."""
        return self.most > MATTERS

    @property
    def sentence(self) -> str:
        """What follows for the program."""
        times = self.input / self.model
        if not self.matters:
            return f"The input alone runs at {times:.0f}x the rate of the model alone: it is not the bottleneck."
        if times >= 1:
            return (
                f"The input alone runs at {times:.1f}x the rate of the model alone: it takes up to {self.most:.0%} of a step."
            )
        return f"The model alone runs at {1 / times:.1f}x the rate of the input alone: the input is the bottleneck."


def fit_rate(model: Any, dataset: Any, seconds: float) -> float:
    """Training steps per second of a `fit` on a data set that is read over and over, without its first steps. Trains the model."""
    keras = importlib.import_module("tf_keras" if of_keras_2(model) else "keras")
    ends: list[float] = []

    def ended(batch: int, logs: Any) -> None:
        ends.append(time.perf_counter())
        model.stop_training = len(ends) > _FIRST and ends[-1] - ends[_FIRST - 1] >= seconds

    clock = keras.callbacks.LambdaCallback(on_train_batch_end=ended)
    model.fit(dataset.repeat(), epochs=1, steps_per_epoch=_MOST, shuffle=False, verbose=0, callbacks=[clock])
    return (len(ends) - _FIRST) * steps_per_execution(model) / (ends[-1] - ends[_FIRST - 1])


BOUND = 1.5  # times as fast alone as today, at most: then the model takes most of the step
WARMUP, STEPS = 3, 12
_HOST = "here"


def slow_parts(program: Program, limits: Limits | None, sources: SourceRecorder | None = None) -> Table | None:
    """The rows of `model_parts`, the largest first; None where the input holds the program back, or where no profile can be made.

    `sources`: knows the layers and lines, where it was there before the model was built. Trains some steps: the caller puts back what they
    change, where that is to be.
    """
    if program.model is None or limits is None or limits.model_ratio is None or limits.model_ratio.low > BOUND:
        return None
    try:
        return _profiled(program, sources)
    except Exception:  # another profiler runs, for instance: a tuning without this table is a tuning all the same
        return None


def _profiled(program: Program, sources: SourceRecorder | None) -> Table | None:
    profiler = sys.modules["tensorflow"].profiler.experimental
    stepper = Stepper(program, Feed(in_memory(program)))
    stepper.compile()
    stepper.run(WARMUP)
    stepper.finish()
    with tempfile.TemporaryDirectory(prefix="outpace-") as folder:
        profiler.start(folder)
        try:
            for number in range(STEPS):
                with profiler.Trace("train", step_num=number, _r=1):
                    stepper.run(1)
                    stepper.finish()
        finally:
            profiler.stop()
        file = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)[0]
        ops, layers = sources.notes() if sources is not None else (None, {})  # while the step's graph is there
        record = {
            "op_sources": asdict(ops) if ops is not None else None,
            "layers": {name: asdict(each) for name, each in layers.items()},
        }
        table = model_parts(Run.of([open_trace(file, _HOST)], folder, records={_HOST: record}))
    return table if len(table) else None


LINES = (
    Field("line", Unit.TEXT, "line of your own code: the innermost one of the training thread's stack"),
    Field("function", Unit.TEXT, "function that holds it"),
    Field("text", Unit.TEXT, "its source", "Code"),
    Field(
        "share",
        Unit.FRACTION,
        "the line's share of the step time, with what libraries do below it; what is computed while Python goes on is the time of the line "
        "that waits for it, and of the step itself where none does",
        "Of step",
    ),
    Field("low", Unit.FRACTION, "lower end of the share's 95% CI", "From"),
    Field("high", Unit.FRACTION, "upper end of it", "To"),
)
SAMPLED = 3.0  # seconds at least: some 300 moments
_LEAST_SHARE = 0.01


def loop_lines(program: Program, runner: object) -> Table | None:
    """The lines of a script whose loop it is that a step's time goes to, the largest share first; None where it is no loop, or cannot be
    sampled."""
    loop = program.loop
    if loop is None or not isinstance(runner, LoopStepper):
        return None
    made = list[FrameSampler]()
    try:
        loop.clock.perform(lambda: made.append(FrameSampler()))  # which sets up signals, in the thread that they come to
        runner.drain()
        loop.clock.apart.clear()
        began = time.perf_counter()
        made[0].start()
        try:
            steps, end = 1, time.monotonic() + SAMPLED
            while time.monotonic() < end:  # whose steps may take a millisecond or a minute
                runner.run(steps)
                steps *= 2
        finally:
            samples = made[0].stop()
    except Exception:  # a tuning without this table is a tuning all the same
        return None
    return _lines(samples, loop, began) if samples is not None else None


def _step_of(
    loop: Loop, stack: Sequence[tuple[int, int]], frames: Sequence[tuple[str, str, int, str]]
) -> tuple[str, int, str, str]:
    """Where the step is made that a stack waits for: behind the last one of a call, or at the end of a pass, no line of the user's does."""
    if loop.woven is not None:
        body = loop.woven.body
        return body.file, body.steps[-1].lineno, body.frame.f_code.co_name, YOURS
    file, line, function = next(
        ((frames[at][0], line, frames[at][1]) for at, line in reversed(stack) if not frames[at][3]), ("", 0, "")
    )
    return file, line, function, YOURS if file else OUTPACE


def _lines(samples: PythonSamples, loop: Loop, began: float) -> Table | None:
    """`began`: when the samples did, by the clock that notes what was no part of a step."""
    frames = samples.frames
    places = [
        (_step_of(loop, stack, frames) if (who, function) == (OUTPACE, finished.__name__) else place)
        for stack, (place, who, function) in zip(
            samples.stacks, places_of({}, {"frames": frames, "stacks": samples.stacks}), strict=True
        )
    ]
    apart = [((start - began) * 1e9, (end - began) * 1e9) for start, end in loop.clock.apart]
    starts = [start for start, _ in apart]
    weights: dict[tuple[str, int, str], int] = defaultdict(int)
    met = [
        (places[stack], weight)
        for moment, weight, stack in samples.samples
        if places[stack][3] != OUTPACE and not ((at := bisect.bisect(starts, moment)) and moment < apart[at - 1][1])
    ]
    for (file, line, function, who), weight in met:
        if who == YOURS:
            weights[file, line, function] += weight
    total = sum(weight for _, weight in met)
    rows = [
        (source_line(file, line), function, linecache.getline(file, line).strip(), share, *interval(share, len(met)))
        for (file, line, function), weight in weights.items()
        if (share := weight / total) >= _LEAST_SHARE
    ]
    return Table.from_rows("lines", "Where a step's time goes", LINES, sorted(rows, key=lambda row: -row[3])) if rows else None

"""What a step would save if a stage's results were kept: the stage and everything that feeds it would cost nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.input.iterators import draws, groups, shuffles
from outpace.metrics.input.segments import CHAIN, Pipeline, StageWork
from outpace.metrics.input.stage_labels import stage_record
from outpace.metrics.machine.own_best import competition
from outpace.metrics.program.budget import slowed
from outpace.metrics.program.counterfactual import EXPLAINS, awaited
from outpace.model import Category, Saving, bootstrap_saving
from outpace.model.arrays import Values
from outpace.timeline import Run, Timeline
from outpace.timeline.run import Record

_KEEPABLE = ("Map", "ParallelMap", "Interleave", "ParallelInterleave", "FlatMap", "Batch", "ParallelBatch", "PaddedBatch")
_PYTHON = frozenset(("PyFunc", "EagerPyFunc"))
_FEWEST = 3  # steps: of fewer, nothing says how far they vary, and there is no prediction
_ASSUMES = (
    "if this stage's output were cached: its input wait, limited by the next slowest stage, plus CPU time returned to the model"
)


@dataclass(frozen=True)
class Waiting:
    """A pipeline, and the steps of its host: how long they are (some of them take time), and how long they wait for input (ps, float64)."""

    run: Run
    timeline: Timeline
    pipeline: Pipeline
    steps: Values
    waits: Values

    @property
    def step(self) -> float:
        """Mean step time, ps."""
        return float(self.steps.mean())

    @property
    def share(self) -> float:
        """Share of the step time that waits for input."""
        return float(self.waits.mean()) / self.step

    @property
    def batches(self) -> int:
        """How many batches a step takes: several, where a call runs several training steps."""
        return max(1, round(self.pipeline.calls / max(self.pipeline.steps, 1)))

    @property
    def explained(self) -> float:
        """Share of the step that waits for the pipeline; Keras' adapter is asked for a batch less often if batches are larger."""
        if self.of_arrays or not self.pipeline.segments or self.pipeline.segments[0].boundary < 0:
            return self.share
        return awaited(self.share, self.pipeline.segments[0].busy * self.batches / self.step)

    @property
    def of_arrays(self) -> bool:
        """Whether Keras made the pipeline from arrays: a stage does nothing but gather rows of what comes in as one element."""
        types = {stage.type for stage in self.pipeline.stages}
        return "FromTensor" in types and any(stage.gathers for stage in self.pipeline.stages)

    @property
    def record(self) -> Record:
        """What the capture noted."""
        return self.run.record(self.timeline.host)


def repeats(stage: StageWork, record: Record) -> float:
    """Share of a stage's work that gives the same result in every epoch, as far as the capture saw: 1 without random numbers and variables."""
    noted = stage_record(stage.label, record)
    varying = frozenset(noted.get("varying") or ())
    if not varying:
        return 0.0 if any("andom" in str(reason) for reason in noted.get("stateful") or ()) else 1.0
    spent = sum(stage.ops.values())
    again = sum(time for name, time in stage.ops.items() if not _varies(name.split(":", 1)[0], varying))
    # never 1: cheap ops leave no event, so that all that was seen may repeat
    return min(again / spent, math.nextafter(1, 0)) if spent else 0.0


def _varies(op: str, varying: frozenset[str]) -> bool:
    """Whether an op gives something else in each epoch: itself, or as a part of a branch or loop that does."""
    scopes = op.split("/")
    return any("/".join(scopes[:end]) in varying for end in range(1, len(scopes) + 1))


def fed_alike(waiting: Waiting, stage: StageWork) -> bool:
    """Whether a stage gets the same elements in every epoch, in whatever order: what feeds it draws nothing, as far as the capture saw, and
    puts nothing together that was shuffled."""
    below = feeding(waiting.pipeline, stage)
    record = waiting.record
    if any(draws(each.type) or repeats(each, record) < 1 or draws_unseen(each, record) for each in below):
        return False
    return not any(groups(each.type) and shuffled(waiting.pipeline, each) for each in below)


def feeding(pipeline: Pipeline, stage: StageWork) -> list[StageWork]:
    """The stages whose elements reach a stage."""
    stages = pipeline.stages
    at = next(i for i, each in enumerate(stages) if each is stage)
    return [each for i, each in enumerate(stages) if is_below(stages, i, at)]


def shuffled(pipeline: Pipeline, stage: StageWork) -> bool:
    """Whether a stage gets its elements in another order in every epoch: kept behind it, one of the orders would be that of all epochs."""
    return any(shuffles(each.type) for each in feeding(pipeline, stage))


def draws_unseen(stage: StageWork, record: Record) -> bool:
    """Whether it runs Python: nobody sees what that draws."""
    return bool(_PYTHON.intersection(stage_record(stage.label, record).get("stateful") or ()))


def kept(waiting: Waiting, stage: StageWork) -> dict[int, float]:
    """What no longer runs if results are kept behind a stage, by the stage's index: the share of its work.

    Behind the stages that follow it and give the same in every epoch, up to the first shuffle; inside its own function, where only a part of
    that repeats. What is shuffled before it is kept for each element, and shuffled behind that in every epoch.
    """
    stages, record = waiting.pipeline.stages, waiting.record
    top = stages.index(stage)
    own = repeats(stage, record)
    before = shuffled(waiting.pipeline, stage)
    while own == 1 and stages[top].parent >= 0 and not before:
        parent = stages[stages[top].parent]
        if not parent.type.startswith(_KEEPABLE) or repeats(parent, record) < 1:
            break
        top = stages[top].parent
    below = (at for at in range(len(stages)) if is_below(stages, at, top) and not shuffles(stages[at].type))
    return {**dict.fromkeys(below, 1.0), top: own}


def is_below(stages: tuple[StageWork, ...], at: int, above: int) -> bool:
    """Whether a stage feeds another, directly or through others."""
    while at >= 0:
        at = stages[at].parent
        if at == above:
            return True
    return False


def busy_without(pipeline: Pipeline, gone: Mapping[int, float]) -> float:
    """Busy time per step of the slowest segment if shares of some stages' work cost nothing, ps."""
    left = []
    for segment in pipeline.segments:
        mine = 0.0
        for at in gone.keys() & segment.stages:
            stage = pipeline.stages[at]
            mine += gone[at] * (stage.own + stage.handing if segment.kind == CHAIN else stage.function)
        left.append((segment.work - mine) / segment.threads / max(pipeline.calls, 1))
    return max(left, default=0.0)


def saving(waiting: Waiting, stage: StageWork) -> Saving | None:
    """What a step saves if a stage's results are kept: a prediction, or a bound where the range is wider than its middle, or steps
    are too few to tell; None without any.

    At least the wait for input goes, or what the next slowest segment leaves of it, and at most the model also gets back the cores that it
    shared with the stages that are gone (`competition`). What profiling itself cost may have been on either side.
    """
    if not waiting.step:  # steps without length
        return None
    gone = kept(waiting, stage)
    each = waiting.batches / max(waiting.pipeline.calls, 1)
    freed = sum(share * waiting.pipeline.stages[at].work for at, share in gone.items()) * each
    remaining = busy_without(waiting.pipeline, gone) * waiting.batches
    back = competition(waiting.run, waiting.timeline, freed, float(waiting.waits.mean()))
    slower = min(slowed(waiting.run, waiting.timeline), float(waiting.steps.min()) / 2)
    waits = waiting.waits if freed >= EXPLAINS * float(waiting.waits.mean()) else np.minimum(waiting.waits, freed)
    waits = waits * (waiting.explained > 0)  # a pipeline that keeps up is not waited for
    steps, own = waiting.steps - slower, waiting.steps - waits
    ends = []
    for after, rest in (  # the length of a step without these stages, and of the slowest of the others
        (own * (1 - back[0]), remaining),
        (np.maximum(own - slower, 0.0) * (1 - back[1]), max(remaining - slower, 0.0) * (1 - back[1])),
    ):
        ends.append(bootstrap_saving(np.maximum(steps - np.maximum(after, rest), 0.0), steps, "")[1])
    most = (
        float(waiting.waits.mean()) + freed
    ) / waiting.step  # time of a core that is freed ends at most as much waiting for cores
    low, high = min(ends[0].low, 1.0, most), min(max(ends[0].low, ends[1].high), 1.0, most)
    if high <= 0:
        return None
    takes = (Category.INPUT.value, Category.HOST_COMPUTE.value)
    known = len(steps) >= _FEWEST and high - low <= (low + high) / 2
    return Saving(low if known else 0.0, high, takes, _ASSUMES)

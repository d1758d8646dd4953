"""What a step would save if a stage's results were kept: the stage and everything that feeds it
would cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.facts.input_iterators import is_grouping_stage, is_random_stage, is_shuffling_stage
from outpace.metrics.facts.input_pipelines import CHAIN, Pipeline, StageWork
from outpace.metrics.savings.best_case import contention_saving
from outpace.metrics.savings.bounds import MIN_CAUSE_SHARE, input_wait_bound
from outpace.metrics.savings.budget import profiling_slowdown_ps
from outpace.metrics.stage_labels import find_stage_record
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
class InputWait:
    """A pipeline, and the steps of its host: how long they are (some of them take time), and how
    long they wait for input (ps, float64).
    """

    run: Run
    timeline: Timeline
    pipeline: Pipeline
    step_durations: Values
    wait_durations: Values

    @property
    def mean_step_ps(self) -> float:
        """Mean step time, ps."""
        return float(self.step_durations.mean())

    @property
    def wait_share(self) -> float:
        """Share of the step time that waits for input."""
        return float(self.wait_durations.mean()) / self.mean_step_ps

    @property
    def batches_per_step(self) -> int:
        """How many batches a step takes: several, where a call runs several training steps."""
        return max(1, round(self.pipeline.root_calls / max(self.pipeline.steps, 1)))

    @property
    def explained_share(self) -> float:
        """Share of the step that waits for the pipeline; Keras' adapter is asked for a batch less
        often if batches are larger.
        """
        if self.is_from_arrays or not self.pipeline.segments or self.pipeline.segments[0].boundary < 0:
            return self.wait_share
        return input_wait_bound(self.wait_share, self.pipeline.segments[0].busy_ps * self.batches_per_step / self.mean_step_ps)

    @property
    def is_from_arrays(self) -> bool:
        """Whether Keras made the pipeline from arrays: a stage does nothing but gather rows of what
        comes in as one element.
        """
        types = {stage.type for stage in self.pipeline.stages}
        return "FromTensor" in types and any(stage.only_gathers for stage in self.pipeline.stages)

    @property
    def record(self) -> Record:
        """What the capture noted."""
        return self.run.record(self.timeline.host)


def repeatable_share(stage: StageWork, record: Record) -> float:
    """Share of a stage's work that gives the same result in every epoch, as far as the capture saw:
    1 without random numbers and variables.
    """
    noted = find_stage_record(stage.label, record)
    varying = frozenset(noted.get("varying") or ())
    if not varying:
        return 0.0 if any("andom" in str(reason) for reason in noted.get("stateful") or ()) else 1.0
    spent = sum(stage.op_ps.values())
    again = sum(time for name, time in stage.op_ps.items() if not _varies(name.split(":", 1)[0], varying))
    # never 1: cheap ops leave no event, so that all that was seen may repeat
    return min(again / spent, math.nextafter(1, 0)) if spent else 0.0


def _varies(op: str, varying: frozenset[str]) -> bool:
    """Whether an op gives something else in each epoch: itself, or as a part of a branch or loop
    that does.
    """
    scopes = op.split("/")
    return any("/".join(scopes[:end]) in varying for end in range(1, len(scopes) + 1))


def has_stable_input(wait: InputWait, stage: StageWork) -> bool:
    """Whether a stage gets the same elements in every epoch, in whatever order: what feeds it draws
    nothing, as far as the capture saw, and puts nothing together that was shuffled.
    """
    below = find_upstream_stages(wait.pipeline, stage)
    record = wait.record
    if any(is_random_stage(each.type) or repeatable_share(each, record) < 1 or has_python_op(each, record) for each in below):
        return False
    return not any(is_grouping_stage(each.type) and is_shuffled(wait.pipeline, each) for each in below)


def find_upstream_stages(pipeline: Pipeline, stage: StageWork) -> list[StageWork]:
    """The stages whose elements reach a stage."""
    stages = pipeline.stages
    at = next(i for i, each in enumerate(stages) if each is stage)
    return [each for i, each in enumerate(stages) if is_upstream(stages, i, at)]


def is_shuffled(pipeline: Pipeline, stage: StageWork) -> bool:
    """Whether a stage gets its elements in another order in every epoch: kept behind it, one of the
    orders would be that of all epochs.
    """
    return any(is_shuffling_stage(each.type) for each in find_upstream_stages(pipeline, stage))


def has_python_op(stage: StageWork, record: Record) -> bool:
    """Whether it runs Python: nobody sees what that draws."""
    return bool(_PYTHON.intersection(find_stage_record(stage.label, record).get("stateful") or ()))


def compute_cached_shares(wait: InputWait, stage: StageWork) -> dict[int, float]:
    """What no longer runs if results are kept behind a stage, by the stage's index: the share of
    its work.

    Behind the stages that follow it and give the same in every epoch, up to the first shuffle;
    inside its own function, where only a part of that repeats. What is shuffled before it is kept
    for each element, and shuffled behind that in every epoch.
    """
    stages, record = wait.pipeline.stages, wait.record
    top = stages.index(stage)
    own = repeatable_share(stage, record)
    before = is_shuffled(wait.pipeline, stage)
    while own == 1 and stages[top].parent >= 0 and not before:
        parent = stages[stages[top].parent]
        if not parent.type.startswith(_KEEPABLE) or repeatable_share(parent, record) < 1:
            break
        top = stages[top].parent
    below = (at for at in range(len(stages)) if is_upstream(stages, at, top) and not is_shuffling_stage(stages[at].type))
    return {**dict.fromkeys(below, 1.0), top: own}


def is_upstream(stages: tuple[StageWork, ...], index: int, downstream: int) -> bool:
    """Whether a stage feeds another, directly or through others."""
    while index >= 0:
        index = stages[index].parent
        if index == downstream:
            return True
    return False


def compute_busy_without(pipeline: Pipeline, removed_shares: Mapping[int, float]) -> float:
    """Busy time per step of the slowest segment if shares of some stages' work cost nothing, ps."""
    left = []
    for segment in pipeline.segments:
        mine = 0.0
        for at in removed_shares.keys() & segment.stages:
            stage = pipeline.stages[at]
            mine += removed_shares[at] * (stage.self_ps + stage.handoff_ps if segment.kind == CHAIN else stage.function_ps)
        left.append((segment.work_ps - mine) / segment.threads / max(pipeline.root_calls, 1))
    return max(left, default=0.0)


def compute_cache_saving(wait: InputWait, stage: StageWork) -> Saving | None:
    """What a step saves if a stage's results are kept: a prediction, or a bound where the range is
    wider than its middle, or steps are too few to tell; None without any.

    At least the wait for input goes, or what the next slowest segment leaves of it, and at most the
    model also gets back the cores that it shared with the stages that are gone
    (`contention_saving`). What profiling itself cost may have been on either side.
    """
    if not wait.mean_step_ps:  # steps without length
        return None
    gone = compute_cached_shares(wait, stage)
    each = wait.batches_per_step / max(wait.pipeline.root_calls, 1)
    freed = sum(share * wait.pipeline.stages[at].work_ps for at, share in gone.items()) * each
    remaining = compute_busy_without(wait.pipeline, gone) * wait.batches_per_step
    back = contention_saving(wait.run, wait.timeline, freed, float(wait.wait_durations.mean()))
    slower = min(profiling_slowdown_ps(wait.run, wait.timeline), float(wait.step_durations.min()) / 2)
    waits = (
        wait.wait_durations
        if freed >= MIN_CAUSE_SHARE * float(wait.wait_durations.mean())
        else np.minimum(wait.wait_durations, freed)
    )
    waits = waits * (wait.explained_share > 0)  # a pipeline that keeps up is not waited for
    steps, own = wait.step_durations - slower, wait.step_durations - waits
    ends = []
    for after, rest in (  # the length of a step without these stages, and of the slowest of the others
        (own * (1 - back[0]), remaining),
        (np.maximum(own - slower, 0.0) * (1 - back[1]), max(remaining - slower, 0.0) * (1 - back[1])),
    ):
        ends.append(bootstrap_saving(np.maximum(steps - np.maximum(after, rest), 0.0), steps, "")[1])
    most = (
        float(wait.wait_durations.mean()) + freed
    ) / wait.mean_step_ps  # time of a core that is freed ends at most as much waiting for cores
    low, high = min(ends[0].low, 1.0, most), min(max(ends[0].low, ends[1].high), 1.0, most)
    if high <= 0:
        return None
    takes = (Category.INPUT.value, Category.HOST_COMPUTE.value)
    known = len(steps) >= _FEWEST and high - low <= (low + high) / 2
    return Saving(low if known else 0.0, high, takes, _ASSUMES)

# SPDX-License-Identifier: Apache-2.0
"""The time that a step would save if a stage's results were cached: the stage, and everything that
feeds it, would then cost nothing.
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
_FEWEST = 3  # minimum number of steps for a prediction: fewer do not show how much steps vary
_ASSUMES = (
    "if this stage's output were cached: its input wait, limited by the next slowest stage, plus CPU time returned to the model"
)


@dataclass(frozen=True)
class InputWait:
    """An input pipeline, and the steps of its host.

    run: the run.
    timeline: the timeline of the host.
    pipeline: the input pipeline.
    step_durations: length of each step, ps, float64; some step takes time.
    wait_durations: time that each step waits for input, ps, float64.
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
        """Number of batches that a step takes: several, where a call runs several training
        steps.
        """
        return max(1, round(self.pipeline.root_calls / max(self.pipeline.steps, 1)))

    @property
    def explained_share(self) -> float:
        """Share of the step that waits for this pipeline: the whole input wait where Keras built
        the pipeline from arrays or the training thread runs its slowest segment, else limited to
        what the slowest segment explains.
        """
        if self.is_from_arrays or not self.pipeline.segments or self.pipeline.segments[0].boundary < 0:
            return self.wait_share
        return input_wait_bound(self.wait_share, self.pipeline.segments[0].busy_ps * self.batches_per_step / self.mean_step_ps)

    @property
    def is_from_arrays(self) -> bool:
        """Whether Keras built the pipeline from arrays: a stage only gathers rows of a single input
        element.
        """
        types = {stage.type for stage in self.pipeline.stages}
        return "FromTensor" in types and any(stage.only_gathers for stage in self.pipeline.stages)

    @property
    def record(self) -> Record:
        """The capture record of the host."""
        return self.run.record(self.timeline.host)


def repeatable_share(stage: StageWork, record: Record) -> float:
    """Return the share of a stage's work that has the same result in every epoch, as far as the
    capture shows: 1 without random numbers and variables.
    """
    noted = find_stage_record(stage.label, record)
    varying = frozenset(noted.get("varying") or ())
    if not varying:
        return 0.0 if any("andom" in str(reason) for reason in noted.get("stateful") or ()) else 1.0
    spent = sum(stage.op_ps.values())
    again = sum(time for name, time in stage.op_ps.items() if not _varies(name.split(":", 1)[0], varying))
    # Never 1: cheap ops leave no event, so that everything recorded may repeat while something else
    # varies.
    return min(again / spent, math.nextafter(1, 0)) if spent else 0.0


def _varies(op: str, varying: frozenset[str]) -> bool:
    """Whether the result of an op differs from epoch to epoch: by itself, or as part of a branch or
    loop whose result does.
    """
    scopes = op.split("/")
    return any("/".join(scopes[:end]) in varying for end in range(1, len(scopes) + 1))


def has_stable_input(wait: InputWait, stage: StageWork) -> bool:
    """Whether a stage gets the same elements in every epoch, in whatever order: as far as the
    capture shows, the stages that feed it draw no random numbers, and none of them combines
    shuffled elements.
    """
    stages = find_upstream_stages(wait.pipeline, stage)
    record = wait.record
    if any(
        is_random_stage(upstream.type) or repeatable_share(upstream, record) < 1 or has_python_op(upstream, record)
        for upstream in stages
    ):
        return False
    return not any(is_grouping_stage(upstream.type) and is_shuffled(wait.pipeline, upstream) for upstream in stages)


def find_upstream_stages(pipeline: Pipeline, stage: StageWork) -> list[StageWork]:
    """Return the stages whose elements reach a stage."""
    stages = pipeline.stages
    at = next(i for i, other in enumerate(stages) if other is stage)
    return [other for i, other in enumerate(stages) if is_upstream(stages, i, at)]


def is_shuffled(pipeline: Pipeline, stage: StageWork) -> bool:
    """Whether a stage gets its elements in another order in every epoch. A cache behind it would
    repeat one of these orders in all epochs.
    """
    return any(is_shuffling_stage(upstream.type) for upstream in find_upstream_stages(pipeline, stage))


def has_python_op(stage: StageWork, record: Record) -> bool:
    """Whether a stage runs Python: the capture cannot show whether that draws random numbers."""
    return bool(_PYTHON.intersection(find_stage_record(stage.label, record).get("stateful") or ()))


def compute_cached_shares(wait: InputWait, stage: StageWork) -> dict[int, float]:
    """Return the share of each stage's work that a cache for a stage's results removes, by index of
    the stage.

    The cache is placed behind the later stages with the same result in every epoch, up to the first
    shuffle; or inside the stage's own function, where only a part of that repeats. Elements that
    were shuffled before the stage are cached one by one, and shuffled behind the cache in every
    epoch.
    """
    stages, record = wait.pipeline.stages, wait.record
    top = stages.index(stage)
    own_share = repeatable_share(stage, record)
    before = is_shuffled(wait.pipeline, stage)
    while own_share == 1 and stages[top].parent >= 0 and not before:
        parent = stages[stages[top].parent]
        if not parent.type.startswith(_KEEPABLE) or repeatable_share(parent, record) < 1:
            break
        top = stages[top].parent
    below = (at for at in range(len(stages)) if is_upstream(stages, at, top) and not is_shuffling_stage(stages[at].type))
    return {**dict.fromkeys(below, 1.0), top: own_share}


def is_upstream(stages: tuple[StageWork, ...], index: int, downstream: int) -> bool:
    """Whether a stage feeds another one, directly or through others."""
    while index >= 0:
        index = stages[index].parent
        if index == downstream:
            return True
    return False


def compute_busy_without(pipeline: Pipeline, removed_shares: Mapping[int, float]) -> float:
    """Return the busy time per batch of the slowest segment if the given shares of stages' work
    cost nothing, ps. `removed_shares` is by index of the stage.
    """
    busy_ps = []
    for segment in pipeline.segments:
        removed_ps = 0.0
        for at in removed_shares.keys() & segment.stages:
            stage = pipeline.stages[at]
            removed_ps += removed_shares[at] * (
                stage.self_ps + stage.handoff_ps if segment.kind == CHAIN else stage.function_ps
            )
        busy_ps.append((segment.work_ps - removed_ps) / segment.threads / max(pipeline.root_calls, 1))
    return max(busy_ps, default=0.0)


def compute_cache_saving(wait: InputWait, stage: StageWork) -> Saving | None:
    """Return what a step saves if a stage's results are cached; None where that is nothing.

    The saving is a prediction; it is only a bound where its range is wider than its middle, or the
    steps are too few. At least, the wait for input goes, except for what the next slowest segment
    still needs. At most, the model also gets back the cores that it shared with the removed stages
    (`contention_saving`). The cost of profiling itself may have fallen on either part.
    """
    if not wait.mean_step_ps:  # no step has a length
        return None
    gone = compute_cached_shares(wait, stage)
    per_step = wait.batches_per_step / max(wait.pipeline.root_calls, 1)
    freed = sum(share * wait.pipeline.stages[at].work_ps for at, share in gone.items()) * per_step
    remaining = compute_busy_without(wait.pipeline, gone) * wait.batches_per_step
    back = contention_saving(wait.run, wait.timeline, freed, float(wait.wait_durations.mean()))
    slower = min(profiling_slowdown_ps(wait.run, wait.timeline), float(wait.step_durations.min()) / 2)
    waits = (
        wait.wait_durations
        if freed >= MIN_CAUSE_SHARE * float(wait.wait_durations.mean())
        else np.minimum(wait.wait_durations, freed)
    )
    waits = waits * (wait.explained_share > 0)  # the model does not wait for a pipeline that keeps up
    steps, work_durations = wait.step_durations - slower, wait.step_durations - waits
    ends = []
    # The length of a step without these stages, and that of the slowest of the others.
    for after, rest in (
        (work_durations * (1 - back[0]), remaining),
        (np.maximum(work_durations - slower, 0.0) * (1 - back[1]), max(remaining - slower, 0.0) * (1 - back[1])),
    ):
        ends.append(bootstrap_saving(np.maximum(steps - np.maximum(after, rest), 0.0), steps, "")[1])
    # One second of a freed core ends at most one second of waiting for cores.
    most = (float(wait.wait_durations.mean()) + freed) / wait.mean_step_ps
    low, high = min(ends[0].low, 1.0, most), min(max(ends[0].low, ends[1].high), 1.0, most)
    if high <= 0:
        return None
    takes = (Category.INPUT.value, Category.HOST_COMPUTE.value)
    is_predicted = len(steps) >= _FEWEST and high - low <= (low + high) / 2
    return Saving(low if is_predicted else 0.0, high, takes, _ASSUMES)

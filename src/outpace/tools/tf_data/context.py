# SPDX-License-Identifier: Apache-2.0
"""The facts about an input pipeline that its rules share."""

from __future__ import annotations

from dataclasses import replace

from outpace._caching import once
from outpace.metrics.facts import cpu_saturation
from outpace.metrics.facts.input_iterators import count_iterators
from outpace.metrics.facts.input_pipelines import StageWork
from outpace.metrics.facts.step_gaps import step_gaps
from outpace.metrics.savings.bounds import background_bound
from outpace.metrics.savings.budget import build_saving
from outpace.metrics.stage_labels import format_stage, stage_source
from outpace.model import OUTSIDE_STEPS, Category, Saving, Severity, Threshold, Unit
from outpace.timeline import Timeline
from outpace.tools.tf_data.cache_saving import InputWait, compute_busy_without, compute_cache_saving, find_upstream_stages

XPROF = "XProf's input pipeline page"
HIGHLY_BOUND = Threshold("highly input-bound", 0.20, Unit.FRACTION, XPROF)
MODERATELY_BOUND = Threshold("moderately input-bound", 0.05, Unit.FRACTION, XPROF)
MIN_SHARE = Threshold(
    "worth acting on", 0.20, Unit.FRACTION, "share of the slowest segment's work; less cannot free the pipeline"
)
_NOTHING = "if this stage, and what feeds it, took no time: its input wait, plus CPU time returned to the model"
_PARALLEL = "if it ran on all cores: its input wait, as far as cores are idle, and the next slowest stage allows"
CALL_COSTS = 0.5  # minimum share of a function's time outside its ops, for calls and starting ops to be the problem
_SEQUENTIAL = ("Map", "Interleave", "Filter")
IN_EACH = Threshold("iterators per step", 0.5, Unit.RATIO, "our choice: an epoch makes one, and has more than two steps")
CACHE_TYPES = (
    "MemoryCache",
    "FileCache",
    "CacheDataset",
    "FileReader",
    "MemoryReader",
    "MemoryWriter",
    "FileWriter",
    "Snapshot",
)


class PipelineContext(InputWait):
    """An input pipeline with the facts that its rules share: how severe its limit is, and what
    changes of its stages save.
    """

    @property
    def host(self) -> str:
        """Name of the host."""
        return self.timeline.host

    @once
    def outside_share(self) -> float:
        """Share of the time from the first step to the last that waits for input between the steps,
        where the step marks leave out the input.
        """
        gaps = step_gaps(self.run).get(self.host)
        return gaps.category_shares[Category.INPUT] if gaps is not None and gaps.in_most_gaps else 0.0

    @once
    def severity(self) -> Severity:
        """Severity by the largest of three shares: the step's wait for the pipeline, the wait for
        input between the steps, and the minimum saving of caching the slowest stage (half of the
        maximum, where all cores are busy).
        """
        most = self.cache_saving(self.pipeline.bottleneck) if self.pipeline.bottleneck else None
        least = 0.0 if most is None else max(most.low, most.high / 2 if self.is_saturated else 0.0)
        share = max(self.explained_share, self.outside_share, least)
        return (
            Severity.HIGH
            if share >= HIGHLY_BOUND.value
            else Severity.MODERATE
            if share >= MODERATELY_BOUND.value
            else Severity.INFO
        )

    @once
    def is_saturated(self) -> bool:
        """Whether input and model compete for the same cores."""
        rows = (
            list(cpu_saturation.cpu_saturation(self.run).filter_by("host", self.host).records())
            if not self.run.has_device
            else []
        )
        return any(cpu_saturation.has_core_contention(row) for row in rows)

    def cache_saving(self, stage: StageWork) -> Saving | None:
        """Return what caching a stage's results saves; None where that is not worth the work."""
        saving = compute_cache_saving(self, stage)
        if self.outside_share > self.wait_share:
            part = min(1.0, stage.work_ps / max(self.pipeline.segments[0].work_ps, 1)) if self.pipeline.segments else 1.0
            waits = build_saving(part * self.outside_share, OUTSIDE_STEPS, assumes="if no time between the steps waited for it")
            if saving is None or (waits is not None and waits.high > saving.high):
                return waits
        # Only the wait for batches and slices can go.
        if saving is not None and not stage.function_ps and stage.type != "Generator":
            saving = replace(saving, low=min(saving.low, self.wait_share), high=min(saving.high, self.wait_share))
        return saving if saving is not None and saving.high >= MODERATELY_BOUND.value else None

    def removal_saving(self, stage: StageWork) -> Saving | None:
        """Return the upper bound of what a step saves if a stage, and what feeds it, took less
        time: all that it would save if they took none.
        """
        saving = self.cache_saving(stage)
        return saving and replace(
            saving, low=0.0, assumes=saving.assumes if saving.takes_from == (OUTSIDE_STEPS,) else _NOTHING
        )

    def parallel_saving(self, stage: StageWork) -> Saving | None:
        """Return the upper bound of what a step saves if a stage ran on all cores instead of on
        one. A saving of 0 means that the cores have no room, None that there is no number.
        """
        if self.outside_share > self.wait_share:
            return self.removal_saving(stage)
        batches_per_ps = self.batches_per_step / self.mean_step_ps
        at = self.pipeline.stages.index(stage)
        work, other_work = (
            stage.work_ps / max(self.pipeline.root_calls, 1) * batches_per_ps,
            compute_busy_without(self.pipeline, {at: 1.0}) * batches_per_ps,
        )
        share = background_bound(self.run, self.host, self.explained_share, work, other_work)
        return Saving(0.0, share if share >= MODERATELY_BOUND.value else 0.0, (Category.INPUT.value,), _PARALLEL)

    def has_cached_results(self, stage: StageWork) -> bool:
        """Whether a stage that the results of this one reach caches them."""
        while (at := stage.parent) >= 0:
            stage = self.pipeline.stages[at]
            if stage.type.startswith(CACHE_TYPES):
                return True
        return False

    def find_cache_before(self, stage: StageWork) -> StageWork | None:
        """Return the cache nearest to a stage of those whose elements reach it; None for none."""
        return next((other for other in find_upstream_stages(self.pipeline, stage) if other.type.startswith(CACHE_TYPES)), None)

    def format_stage(self, stage: StageWork) -> str:
        """Return a stage in words, as the user's source has it."""
        return format_stage(stage.type, stage_source(stage.label, self.record))

    def is_batched_after(self, stage: StageWork) -> bool:
        """Whether a stage's elements are batched after it, or by the stage itself."""
        if stage.type.startswith("MapAndBatch"):
            return True
        while (at := stage.parent) >= 0:
            stage = self.pipeline.stages[at]
            if "Batch" in stage.type:
                return True
        return False

    def format_map(self, stage: StageWork) -> str:
        """Return the call with a stage's function, in words: of a map that was fused with its
        batch, the map alone.
        """
        if not stage.type.startswith("MapAndBatch"):
            return self.format_stage(stage)
        return format_stage("Map", stage_source(stage.label, self.record).partition(" + ")[0])


def is_sequential(stage: StageWork) -> bool:
    """Whether a stage's function runs for one element after the other. That includes a map that was
    fused with its batch, which then is asynchronous: what TensorFlow allows counts, since on busy
    cores one thread may run all calls of a parallel map.
    """
    return stage.type in _SEQUENTIAL or (stage.type.startswith("MapAndBatch") and stage.parallelism == 1)


def has_new_iterators(timeline: Timeline) -> bool:
    """Whether each step makes a new iterator of a pipeline."""
    return count_iterators(timeline) >= IN_EACH.value * len(timeline.steps) > 0

"""What every rule on an input pipeline looks at."""

from __future__ import annotations

from dataclasses import replace

from outpace._once import once
from outpace.metrics.input.segments import Pipeline, StageWork
from outpace.metrics.input.stage_labels import called, source
from outpace.metrics.machine import cpu_saturation
from outpace.metrics.program.between import between
from outpace.metrics.program.budget import at_most
from outpace.metrics.program.counterfactual import moved
from outpace.model import OUTSIDE, Category, Saving, Severity, Threshold, Unit
from outpace.tools.tf_data.saving import Waiting, busy_without, saving

XPROF = "XProf's input pipeline page"
HIGH = Threshold("highly input-bound", 0.20, Unit.FRACTION, XPROF)
MODERATE = Threshold("moderately input-bound", 0.05, Unit.FRACTION, XPROF)
SHARE = Threshold("worth acting on", 0.20, Unit.FRACTION, "share of the slowest segment's work; less cannot free the pipeline")
_NOTHING = "if this stage, and what feeds it, took no time: its input wait, plus CPU time returned to the model"
_PARALLEL = "if it ran on all cores: its input wait, as far as cores are idle, and the next slowest stage allows"
CACHES = ("MemoryCache", "FileCache", "CacheDataset", "FileReader", "MemoryReader", "MemoryWriter", "FileWriter")


class Context(Waiting):
    """What all rules look at, and how bad it is."""

    @property
    def host(self) -> str:
        """Its name."""
        return self.timeline.host

    @once
    def outside(self) -> float:
        """Share of the time from the first step to the last that waits for input between the steps: marks that leave out the input."""
        gaps = between(self.run).get(self.host)
        return gaps.shares[Category.INPUT] if gaps is not None and gaps.often else 0.0

    @once
    def severity(self) -> Severity:
        """By the share of the step that waits for the pipeline, or that comes back at least if the slowest stage's results are kept; where the
        cores are all busy, by half of what may come back."""
        most = self.savings(self.pipeline.bottleneck) if self.pipeline.bottleneck else None
        least = 0.0 if most is None else max(most.low, most.high / 2 if self.saturated else 0.0)
        share = max(self.explained, self.outside, least)
        return Severity.HIGH if share >= HIGH.value else Severity.MODERATE if share >= MODERATE.value else Severity.INFO

    @once
    def saturated(self) -> bool:
        """Whether input and model want the same cores."""
        rows = list(cpu_saturation.cpu_saturation(self.run).of("host", self.host).records()) if not self.run.has_device else []
        return any(cpu_saturation.shares_cores(row) for row in rows)

    def savings(self, stage: StageWork) -> Saving | None:
        """What keeping a stage's results saves, where that is worth the work."""
        found = saving(self, stage)
        if self.outside > self.share:
            part = min(1.0, stage.work / max(self.pipeline.segments[0].work, 1)) if self.pipeline.segments else 1.0
            waits = at_most(part * self.outside, OUTSIDE, assumes="if no time between the steps waited for it")
            if found is None or (waits is not None and waits.high > found.high):
                return waits
        if found is not None and not stage.function and stage.type != "Generator":  # batches and slices: only their wait can go
            found = replace(found, low=min(found.low, self.share), high=min(found.high, self.share))
        return found if found is not None and found.high >= MODERATE.value else None

    def without(self, stage: StageWork) -> Saving | None:
        """What a step saves at most if a stage, and what feeds it, took less time: all that it would save if they took none."""
        found = self.savings(stage)
        return found and replace(found, low=0.0, assumes=found.assumes if found.takes_from == (OUTSIDE,) else _NOTHING)

    def parallel(self, stage: StageWork) -> Saving | None:
        """What a step saves at most if a stage ran on all cores instead of on one: nothing where they have no room, which is no lack of a
        number."""
        if self.outside > self.share:
            return self.without(stage)
        each = self.batches / self.step
        at = self.pipeline.stages.index(stage)
        work, others = stage.work / max(self.pipeline.calls, 1) * each, busy_without(self.pipeline, {at: 1.0}) * each
        share = moved(self.run, self.host, self.explained, work, others)
        return Saving(0.0, share if share >= MODERATE.value else 0.0, (Category.INPUT.value,), _PARALLEL)

    def called(self, stage: StageWork) -> str:
        """A stage, as the user's source has it."""
        return called(stage.type, source(stage.label, self.record))

    def batched_behind(self, stage: StageWork) -> bool:
        """Whether its elements are put together to batches after it, or by itself."""
        if stage.type.startswith("MapAndBatch"):
            return True
        while (at := stage.parent) >= 0:
            stage = self.pipeline.stages[at]
            if "Batch" in stage.type:
                return True
        return False

    def map_of(self, stage: StageWork) -> str:
        """The call that holds a stage's function: of a map that was fused with its batch, the map alone."""
        if not stage.type.startswith("MapAndBatch"):
            return self.called(stage)
        return called("Map", source(stage.label, self.record).partition(" + ")[0])


def has_cache(pipeline: Pipeline) -> bool:
    """Whether it keeps any stage's results."""
    return any(stage.type.startswith(CACHES) for stage in pipeline.stages)

"""What keeping a stage's results would save, on runs whose every time is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outpace.metrics.facts.input_pipelines import StageWork, pipelines
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.tools.tf_data.cache_saving import (
    InputWait,
    compute_busy_without,
    compute_cache_saving,
    compute_cached_shares,
    has_stable_input,
    is_shuffled,
    repeatable_share,
)
from outpace.trace import read_trace
from tests.support import crowded

MS = 1_000_000_000
STAGES = ("Root", "Prefetch", "Map", "ParallelMapV2", "Shuffle", "TensorSlice")


def waiting(record: dict[str, Any] | None = None, **options: Any) -> InputWait:
    """Steps of 10 ms, of which 6 wait for a function that takes 9 on one thread."""
    asked = {
        "input_ps": 6 * MS,
        "ops": (("a", "MatMul", 4 * MS),),
        "pipeline": STAGES,
        "work_ps": {"ParallelMapV2": 9 * MS},
        **options,
    }
    space = training_run(**{"steps": 8, **asked})
    run = Run.from_traces([read_trace((crowded(space) if record else space).to_bytes(), "vm")], records={"vm": record or {}})
    whole = step_breakdown(run).steady_steps
    steps, waits = (whole[name].astype(np.float64) for name in ("duration_ps", "input_ps"))
    return InputWait(run, run.hosts[0], pipelines(run)[0], steps, waits)


def stage_of(found: InputWait, kind: str) -> StageWork:
    return next(stage for stage in found.pipeline.stages if stage.type == kind)


def predicted(found: InputWait, kind: str) -> tuple[float, float]:
    share = compute_cache_saving(found, stage_of(found, kind))
    assert share is not None
    assert share.takes_from == ("input", "host_compute")
    return share.low, share.high


def test_the_whole_wait_goes_where_nothing_else_is_slow() -> None:
    low, high = predicted(waiting(), "ParallelMapV2")
    assert low == pytest.approx(0.6, abs=0.01) == high


@pytest.mark.parametrize("steps", [1, 2])
def test_few_steps_bound_and_predict_nothing(steps: int) -> None:
    low, high = predicted(waiting(steps=steps), "ParallelMapV2")
    assert low == 0.0
    assert high == pytest.approx(0.6, abs=0.01)


def test_the_next_slowest_segment_is_what_is_left() -> None:
    found = waiting(work_ps={"ParallelMapV2": 9 * MS, "Map": 8 * MS}, record={"pipeline": []})
    gone = {found.pipeline.stages.index(stage_of(found, "ParallelMapV2")): 1.0}
    assert compute_busy_without(found.pipeline, gone) == pytest.approx(
        8 * MS, rel=0.05
    )  # what it worked ahead of the first step is no step's


def test_on_shared_cores_the_model_gets_them_back() -> None:
    low, high = predicted(waiting(record={"cpu_count": 2}), "ParallelMapV2")
    assert low == pytest.approx(0.6, abs=0.01)
    assert high == pytest.approx(0.6 + 0.4 * (1 - 1 / 1.9), abs=0.01)


def test_what_profiling_cost_may_have_been_on_either_side() -> None:
    """Steps took 8 ms without the profiler: 2 of the 6 that they waited, or 2 of the 4 that the
    model took, were its own.
    """
    record = {"overhead": {"before_ns": [8_000_000] * 5, "during_ns": [10_000_000] * 5}}
    low, high = predicted(waiting(record=record), "ParallelMapV2")
    assert low == pytest.approx(4 / 8, abs=0.01)
    assert high == pytest.approx(6 / 8, abs=0.01)


def test_what_follows_and_repeats_is_kept_too_and_what_feeds_it() -> None:
    found = waiting(pipeline=("Prefetch", "Shuffle", "Map", "ParallelMapV2", "TensorSlice"))
    gone = compute_cached_shares(found, stage_of(found, "ParallelMapV2"))
    assert {found.pipeline.stages[at].type for at in gone} == {"Map", "ParallelMapV2", "TensorSlice"}
    assert set(gone.values()) == {1.0}


def test_what_is_shuffled_is_kept_for_each_element_and_shuffled_anew() -> None:
    """A cache behind the shuffle, or behind a batch that follows it, would repeat one order for
    ever.
    """
    found = waiting(pipeline=("Prefetch", "BatchV2", "ParallelMapV2", "Shuffle", "TensorSlice"))
    stage = stage_of(found, "ParallelMapV2")
    assert {found.pipeline.stages[at].type for at in compute_cached_shares(found, stage)} == {"ParallelMapV2", "TensorSlice"}
    assert has_stable_input(found, stage)
    assert is_shuffled(found.pipeline, stage)


@pytest.mark.parametrize("below", [("BatchV2", "Shuffle", "TensorSlice"), ("Random",), ("Zip", "ShuffleV3", "Range")])
def test_batches_of_what_was_shuffled_and_what_was_drawn_differ_in_every_epoch(below: tuple[str, ...]) -> None:
    found = waiting(pipeline=("Prefetch", "ParallelMapV2", *below))
    assert not has_stable_input(found, stage_of(found, "ParallelMapV2"))


def test_a_reader_inside_an_interleave_is_kept_behind_it() -> None:
    found = waiting(pipeline=("Prefetch", "Shuffle", "BatchV2", "ParallelMapV2", "Interleave", "TFRecord"))
    gone = compute_cached_shares(found, stage_of(found, "TFRecord"))
    assert {found.pipeline.stages[at].type for at in gone} == {"BatchV2", "ParallelMapV2", "Interleave", "TFRecord"}


@pytest.mark.parametrize(
    ("noted", "share"),
    [({}, 1.0), ({"varying": ["flip/Mul"]}, 0.75), ({"stateful": ["RandomUniform"]}, 0.0), ({"stateful": ["ReadFile"]}, 1.0)],
)
def test_random_numbers_are_drawn_anew_in_every_epoch(noted: dict[str, Any], share: float) -> None:
    ops = {"DecodeJpeg:DecodeJpeg": 3 * MS, "flip/Mul:Mul": 1 * MS}
    stage = StageWork("", "Map", (0,), -1, False, 8, 0, 0, 0, 1, 1, 0, False, ops, "train_py_L3_map")
    assert repeatable_share(stage, {"pipeline": [{"label": "train_py_L3_map", **noted}]}) == pytest.approx(share)
    assert stage.top_op == "DecodeJpeg"

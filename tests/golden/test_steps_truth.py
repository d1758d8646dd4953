"""Steps are found in every profile that holds training steps; inference alone finds the
same ones.
"""

from __future__ import annotations

import numpy as np
import pytest

from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.model import Category
from tests.support import MARKED, opened, reference

MS = 1_000_000_000

# From the scripts that made the profiles: steps per host, how they are found, and training steps
# per row.
TRUTH = {
    "custom_loop": ([15], "marked", 1),
    "custom_loop_unmarked": ([15], "inferred", 1),
    "derived_v100_bert": ([1], "inferred", 1),
    "eager_loop": ([6], "marked", 1),
    "idle_empty": ([0], "none", 1),
    "input_bound_generator": ([15], "marked", 1),
    "iterator_outside_step": ([12], "marked", 1),
    "jax_cpu_steps": ([8], "marked", 1),
    "jax_h200_input_bound": ([8], "marked", 1),
    "jax_h200_table": ([8], "marked", 1),
    "jax_h200_transformer": ([8], "marked", 1),
    "jax_loop": ([12], "marked", 1),
    "jax_loop_unmarked": ([12], "inferred", 1),
    "jax_rocm_attention": ([3], "inferred", 1),
    "jax_rocm_conv_8gpu": ([5], "inferred", 1),
    "jax_rocm_gemm": ([18], "inferred", 1),
    "jax_rocm_te_attention": ([5], "inferred", 1),
    "keras_fit": ([16], "keras batch", 1),
    "keras_fit_multi_step": ([7], "keras batch", 4),
    "keras_fit_xla": ([16], "keras batch", 1),
    "keras_sleeping_callback": ([9], "marked", 1),
    "loop_sync_generator": ([15], "marked", 1),
    "memory_heavy": ([12], "marked", 1),
    "mirrored": ([11], "keras batch", 1),
    "multi_host": ([20, 13, 20], "marked", 1),
    "multi_worker_strategy": ([10, 10], "marked", 1),
    "python_tracer": ([6], "marked", 1),
    "retracing": ([8], "marked", 1),
    "tf_gpu_v100_bert": ([1], "device line", 1),
    "tfdata_heavy": ([25], "marked", 1),
    "tfrecord_pipeline": ([15], "marked", 1),
    "unicode_names": ([6], "marked", 1),
    "verbose_tracer": ([6], "marked", 1),
}

HIDDEN = (
    "custom_loop",
    "eager_loop",
    "jax_cpu_steps",
    "loop_sync_generator",
    "tfrecord_pipeline",
    "input_bound_generator",
    "retracing",
    "tfdata_heavy",
    "memory_heavy",
    "multi_worker_strategy",
)


@pytest.mark.parametrize("name", TRUTH)
def test_every_step_is_found(name: str) -> None:
    counts, source, per_row = TRUTH[name]
    hosts = opened(name).run.hosts
    assert [len(h.steps) for h in hosts] == counts
    assert {h.steps.source.value for h in hosts} == {source}
    assert {h.steps.steps_per_execution for h in hosts} == {per_row}


# From the durations that the captures show: which steps are no steady state, and why.
ASIDE = {
    "eager_loop": {0: "warm-up"},
    "input_bound_generator": {10: "one-off"},
    "jax_cpu_steps": {0: "warm-up", 3: "slow", 6: "slow"},
    "jax_loop": {0: "warm-up"},
    "jax_rocm_attention": {1: "slow"},
    "jax_loop_unmarked": {0: "warm-up"},
    "loop_sync_generator": {12: "one-off"},
    "retracing": {0: "warm-up"},
    "tfdata_heavy": {0: "fed from buffers", 1: "fed from buffers"},
    "unicode_names": {0: "warm-up"},
}


@pytest.mark.parametrize("name", TRUTH)
def test_the_steady_state_is_all_but_warm_up_and_single_events(name: str) -> None:
    found = [{i: why.value for i, why in enumerate(h.steps.exclusions) if why.value} for h in opened(name).run.hosts]
    assert found == [ASIDE.get(name, {})] * len(found)


@pytest.mark.parametrize("name", [n for n in MARKED if n not in ("multi_host", "multi_worker_strategy")])
def test_the_steady_step_is_the_references(name: str) -> None:
    """XProf's steps, with the same ones left out: their mean within 0.1%. (Of several hosts it has
    the common numbers only.)
    """
    rows = reference(name, "pod_viewer.xprof")["podStatsSequence"]["podStatsMap"]
    theirs = [row["totalDurationUs"] * 1e6 for step in rows for row in step["podStatsPerCore"].values()]
    steady = [time for index, time in enumerate(theirs) if index not in ASIDE.get(name, {})]
    assert step_breakdown(opened(name).run).steady_steps["duration_ps"].mean() == pytest.approx(np.mean(steady), rel=1e-3)


def test_a_block_that_calls_a_function_eight_times_is_one_step() -> None:
    """`jax_rocm_attention`: three calls of `transformer_block`, each with eight of `matmul` (every
    event is there twice).
    """
    timeline = opened("jax_rocm_attention").run.hosts[0]
    trace, steps = timeline.trace, timeline.steps
    calls = trace.find_rows_by_name(lambda n: n == "PjitFunction(matmul)")
    assert np.bincount(np.searchsorted(steps.end, trace.start[calls], side="right")).tolist() == [16, 16, 16]
    assert (steps.start - timeline.span_ps[0]) / MS == pytest.approx([0.84, 4.08, 28.19], abs=0.02)


def test_waiting_for_the_device_belongs_to_the_step_that_waits() -> None:
    """`jax_rocm_attention`: 20.6 ms of waiting (`BufferSequencingEvent::Execute`) lie in the second
    block.
    """
    timeline = opened("jax_rocm_attention").run.hosts[0]
    waits = timeline.trace.find_rows_by_name(lambda n: n == "BufferSequencingEvent::Execute")
    longest = waits[np.argmax(timeline.trace.duration[waits])]
    assert timeline.trace.duration[longest] == pytest.approx(20.6 * MS, rel=0.01)
    assert timeline.step_index[longest] == 1


def test_the_profilers_own_start_is_no_step() -> None:
    """`jax_rocm_te_attention`: `start_trace` lasts 9.7 s, before the first of five calls; 3.2 ms
    for the first, then 2.5.
    """
    timeline = opened("jax_rocm_te_attention").run.hosts[0]
    trace, steps = timeline.trace, timeline.steps
    start = trace.find_rows_by_name(lambda n: n.endswith("start_trace"))
    assert len(start) and trace.duration[start].max() > 9_000 * MS
    assert (timeline.step_index[start] < 0).all()
    assert steps.start[0] >= trace.end[start].max()
    assert np.diff(steps.start) / MS == pytest.approx([3.2, 2.6, 2.5, 2.5], abs=0.06)


def test_what_compiles_first_is_no_steady_state() -> None:
    """`jax_cpu_steps`: the first step compiles twice and takes 177 ms; two others stall, and hold
    60% of the time of all that follow.
    """
    whole = step_breakdown(opened("jax_cpu_steps").run).steady_steps
    assert whole["step"].tolist() == [1, 2, 4, 5, 7]
    assert whole["duration_ps"].mean() == pytest.approx(10.7 * MS, rel=0.01)


def test_a_callback_that_sleeps_is_time_without_events() -> None:
    """`keras_sleeping_callback` sleeps 20 ms after each batch, inside the marks; some events of
    other threads lie in it.
    """
    whole = step_breakdown(opened("keras_sleeping_callback").run).steady_steps
    assert whole[f"{Category.ALL_OTHERS.value}_ps"].mean() >= 20 * MS


def test_a_program_that_runs_ahead_takes_as_long_as_its_device() -> None:
    """`jax_h200_table`, whose marks last 0.3 to 1.0 ms, took 1.62 to 1.67 ms for a step without a
    profiler; the eight marks of `jax_h200_transformer` are over before the first of its steps is
    done.
    """
    steps = opened("jax_h200_table").run.hosts[0].steps
    assert steps.async_dispatch
    assert steps.duration / MS == pytest.approx([1.57] * 8, abs=0.01)
    assert steps.number.tolist() == list(range(51, 59))
    timeline = opened("jax_h200_transformer").run.hosts[0]
    marks = timeline.trace.stat("step_num").rows
    assert timeline.trace.end[marks].max() < timeline.steps.end[0]
    assert timeline.steps.duration[1:] / MS == pytest.approx([17.65] * 7, abs=0.03)
    assert not opened("jax_h200_input_bound").run.hosts[0].steps.async_dispatch, "it waits for each of its losses"


def test_prediction_is_no_training() -> None:
    steps = opened("predict_inference").run.hosts[0].steps
    assert steps.kind == "prediction"
    assert len(steps) == 16


def test_step_numbers_are_the_programs_own() -> None:
    numbers = [h.steps.number.tolist() for h in opened("multi_host").run.hosts]
    assert numbers == [list(range(126, 146)), list(range(137, 150)), list(range(118, 138))]
    assert sorted(opened("unicode_names").run.hosts[0].steps.number.tolist()) == sorted([0, 2**40, -3, 7, 7, 9])


@pytest.mark.parametrize("name", HIDDEN)
def test_inference_agrees_with_hidden_marks(name: str) -> None:
    """Same steps; mean within 2%, median single step within 5%; the first step is only as certain
    as the capture's start.
    """
    for marked, inferred in zip(opened(name).run.hosts, opened(name, use_marks=False).run.hosts, strict=True):
        truth, found = marked.steps.duration[1:].astype(float), inferred.steps.duration[1:].astype(float)
        assert inferred.steps.source.value == "inferred"
        assert len(found) == len(truth)
        assert abs(found.mean() / truth.mean() - 1) < 0.02
        assert np.median(np.abs(found / truth - 1)) < 0.05


def test_inference_on_jax_from_call_to_completion() -> None:
    """A mark in `jax_loop` spans the call and the wait for its result; an inferred step also holds
    the Python before the call.
    """
    marked, inferred = opened("jax_loop").run.hosts[0], opened("jax_loop", use_marks=False).run.hosts[0]
    calls = inferred.trace.find_rows_by_name(lambda n: n.startswith("PjitFunction("))
    start = np.array([int(inferred.trace.start[calls][inferred.trace.start[calls] >= s][0]) for s in inferred.steps.start])
    truth, found = marked.steps.duration[1:], (inferred.steps.end - start)[1:]
    assert len(inferred.steps) == len(marked.steps)
    assert abs(found.mean() / truth.mean() - 1) < 0.02
    assert np.median(np.abs(found / truth - 1)) < 0.05


def test_inference_counts_input_that_marks_leave_out() -> None:
    """`iterator_outside_step` marks only the call, the guide's anti-pattern: an inferred step is
    longer by the input fetched before it.
    """
    marked, inferred = (
        opened("iterator_outside_step").run.hosts[0],
        opened("iterator_outside_step", use_marks=False).run.hosts[0],
    )
    gap = marked.steps.start[1:] - marked.steps.end[:-1]
    assert len(inferred.steps) == len(marked.steps)
    assert np.allclose(inferred.steps.duration[1:], marked.steps.duration[1:] + gap, rtol=0.02)


def test_inference_finds_the_step_whose_mark_was_lost() -> None:
    """In `unicode_names` a `#` in a mark's name lost its metadata: seven steps ran, six kept their
    mark.
    """
    assert len(opened("unicode_names").run.hosts[0].steps) == 6
    assert len(opened("unicode_names", use_marks=False).run.hosts[0].steps) == 7


@pytest.mark.parametrize("name", ["keras_fit", "keras_fit_xla", "keras_fit_multi_step", "mirrored"])
def test_inference_agrees_with_keras_batches(name: str) -> None:
    marked, inferred = opened(name).run.hosts[0], opened(name, use_marks=False).run.hosts[0]
    assert len(inferred.steps) == len(marked.steps)
    assert abs(inferred.steps.duration[1:].mean() / marked.steps.duration[1:].mean() - 1) < 0.02


def test_first_inferred_step_is_recognised_as_partial() -> None:
    """`keras_fit` starts in the middle of what precedes a call; `input_bound_generator` starts
    right before its first step.
    """
    assert not opened("keras_fit", use_marks=False).run.hosts[0].steps.complete[0]
    assert opened("input_bound_generator", use_marks=False).run.hosts[0].steps.complete.all()

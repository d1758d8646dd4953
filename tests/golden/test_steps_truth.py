"""Steps are found in every profile that holds training steps; inference alone finds the same ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import opened

# From the scripts that made the profiles: steps per host, how they are found, and training steps per row.
TRUTH = {
    "custom_loop": ([15], "marked", 1),
    "custom_loop_unmarked": ([15], "inferred", 1),
    "derived_v100_bert": ([1], "inferred", 1),
    "eager_loop": ([6], "marked", 1),
    "idle_empty": ([0], "none", 1),
    "input_bound_generator": ([15], "marked", 1),
    "iterator_outside_step": ([12], "marked", 1),
    "jax_loop": ([12], "marked", 1),
    "jax_loop_unmarked": ([12], "inferred", 1),
    "jax_rocm_conv_8gpu": ([5], "inferred", 1),
    "jax_rocm_gemm": ([18], "inferred", 1),
    "keras_fit": ([16], "keras batch", 1),
    "keras_fit_multi_step": ([7], "keras batch", 4),
    "keras_fit_xla": ([16], "keras batch", 1),
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
    assert {h.steps.per_row for h in hosts} == {per_row}


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
    """Same steps; mean within 2 %, median single step within 5 %; the first step is only as certain as the capture's start."""
    for marked, inferred in zip(opened(name).run.hosts, opened(name, use_marks=False).run.hosts, strict=True):
        truth, found = marked.steps.duration[1:].astype(float), inferred.steps.duration[1:].astype(float)
        assert inferred.steps.source.value == "inferred"
        assert len(found) == len(truth)
        assert abs(found.mean() / truth.mean() - 1) < 0.02
        assert np.median(np.abs(found / truth - 1)) < 0.05


def test_inference_on_jax_from_call_to_completion() -> None:
    """A mark in `jax_loop` spans the call and the wait for its result; an inferred step also holds the Python before the call."""
    marked, inferred = opened("jax_loop").run.hosts[0], opened("jax_loop", use_marks=False).run.hosts[0]
    calls = inferred.trace.named(lambda n: n.startswith("PjitFunction("))
    start = np.array([int(inferred.trace.start[calls][inferred.trace.start[calls] >= s][0]) for s in inferred.steps.start])
    truth, found = marked.steps.duration[1:], (inferred.steps.end - start)[1:]
    assert len(inferred.steps) == len(marked.steps)
    assert abs(found.mean() / truth.mean() - 1) < 0.02
    assert np.median(np.abs(found / truth - 1)) < 0.05


def test_inference_counts_input_that_marks_leave_out() -> None:
    """`iterator_outside_step` marks only the call, the guide's anti-pattern: an inferred step is longer by the input fetched before it."""
    marked, inferred = (
        opened("iterator_outside_step").run.hosts[0],
        opened("iterator_outside_step", use_marks=False).run.hosts[0],
    )
    gap = marked.steps.start[1:] - marked.steps.end[:-1]
    assert len(inferred.steps) == len(marked.steps)
    assert np.allclose(inferred.steps.duration[1:], marked.steps.duration[1:] + gap, rtol=0.02)


def test_inference_finds_the_step_whose_mark_was_lost() -> None:
    """In `unicode_names` a `#` in a mark's name lost its metadata: seven steps ran, six kept their mark."""
    assert len(opened("unicode_names").run.hosts[0].steps) == 6
    assert len(opened("unicode_names", use_marks=False).run.hosts[0].steps) == 7


@pytest.mark.parametrize("name", ["keras_fit", "keras_fit_xla", "keras_fit_multi_step", "mirrored"])
def test_inference_agrees_with_keras_batches(name: str) -> None:
    marked, inferred = opened(name).run.hosts[0], opened(name, use_marks=False).run.hosts[0]
    assert len(inferred.steps) == len(marked.steps)
    assert abs(inferred.steps.duration[1:].mean() / marked.steps.duration[1:].mean() - 1) < 0.02


def test_first_inferred_step_is_recognised_as_partial() -> None:
    """`keras_fit` starts in the middle of what precedes a call; `input_bound_generator` starts right before its first step."""
    assert not opened("keras_fit", use_marks=False).run.hosts[0].steps.complete[0]
    assert opened("input_bound_generator", use_marks=False).run.hosts[0].steps.complete.all()

"""What kind of program a profile shows, so that advice speaks its language."""

from __future__ import annotations

from typing import Any

import pytest

from outpace.metrics.facts.workload import Framework, Workload, find_workload
from outpace.testing import SpaceBuilder, training_run
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.support import PROFILES, opened

MS = 1_000_000_000
KERAS = ("keras_fit", "keras_fit_multi_step", "keras_fit_xla", "keras_sleeping_callback", "mirrored", "predict_inference")
NOTHING = ("idle_empty",)


def expected(name: str) -> Framework:
    if name in NOTHING:
        return Framework.UNKNOWN
    return Framework.KERAS if name in KERAS else Framework.JAX if name.startswith(("jax", "tpu")) else Framework.TENSORFLOW


def run_of(space: SpaceBuilder, **record: Any) -> Run:
    return Run.from_traces([read_trace(space.to_bytes(), "vm")], records={"vm": record} if record else {})


def jax_loop(*, marks: bool = True, pipeline_ms: int = 0) -> SpaceBuilder:
    """Dispatch takes 1 ms of steps of 10; tf.data may work in threads of its own, and its batches
    are awaited.
    """
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    main, pool = plane.line("python"), plane.line("tf_data_private_threadpool/1")
    for step in range(6):
        at = step * 10 * MS
        if marks:
            main.event("train", at, 10 * MS, step_num=step, _r=1)
        if pipeline_ms:
            main.event("EagerExecute", at, 4 * MS, eager_op="IteratorGetNext", is_func=0)
            pool.event("ExecutorState::Process", at, pipeline_ms * MS)
        main.event("PjitFunction(step)", at + 5 * MS, 1 * MS)
    return space


@pytest.mark.parametrize("name", PROFILES)
def test_the_program_of_every_capture(name: str) -> None:
    found = find_workload(opened(name).run)
    assert found.framework is expected(name)
    assert found.is_inference == (name == "predict_inference")


def test_a_loop_of_ones_own_and_keras_fit_differ() -> None:
    assert find_workload(run_of(training_run())).framework is Framework.TENSORFLOW
    assert find_workload(run_of(training_run(marks=None))).framework is Framework.TENSORFLOW
    assert find_workload(run_of(training_run(marks="keras"))).framework is Framework.KERAS


def test_what_the_capture_noted_is_believed() -> None:
    assert find_workload(run_of(training_run(), mode="keras fit")).framework is Framework.KERAS
    assert find_workload(run_of(training_run(marks="keras"), mode="custom loop")).framework is Framework.TENSORFLOW
    assert find_workload(run_of(training_run(marks="keras"), mode="seconds")).framework is Framework.KERAS
    assert find_workload(run_of(training_run(), mode="seconds")).framework is Framework.TENSORFLOW
    assert find_workload(run_of(training_run(), mode="keras predict")).is_inference
    assert not find_workload(run_of(training_run(), mode="keras fit")).is_inference


@pytest.mark.parametrize("marks", [True, False])
@pytest.mark.parametrize("pipeline_ms", [0, 8])
def test_jax_is_told_also_where_tensorflow_feeds_it(marks: bool, pipeline_ms: int) -> None:
    """Dispatch is short, because it is asynchronous; the threads of tf.data may work
    much longer.
    """
    found = find_workload(run_of(jax_loop(marks=marks, pipeline_ms=pipeline_ms)))
    assert found.framework is Framework.JAX


def test_keras_on_jax_is_told_from_its_own_steps() -> None:
    found = find_workload(run_of(jax_loop(), mode="keras fit"))
    assert found.framework is Framework.KERAS_JAX
    assert found.is_jax and found.is_keras


def test_nothing_is_unknown() -> None:
    space = SpaceBuilder()
    space.plane("/host:CPU").line("python").event("something", 0, MS)
    assert find_workload(run_of(space)) == Workload(Framework.UNKNOWN)


def test_from_what_a_device_ran_where_the_host_is_silent() -> None:
    space = SpaceBuilder()
    line = space.plane("/device:TPU:0").line("XLA Modules")
    for step in range(4):
        line.event("jit_step(123)", step * MS, MS // 2)
    assert find_workload(run_of(space)).framework is Framework.JAX


@pytest.mark.parametrize("framework", Framework)
def test_the_words_fit(framework: Framework) -> None:
    said = Workload(framework).select_text(keras="k", tensorflow="t", jax="j")
    assert said == {"Keras": "k", "TensorFlow": "t", "JAX": "j", "Keras on JAX": "k", "unknown": "t"}[framework.value]
    assert Workload(Framework.KERAS_JAX).select_text(keras="k", tensorflow="t", jax="j", keras_jax="both") == "both"
    assert Workload(framework).name and Workload(framework, is_inference=True).name.startswith("inference")


@pytest.mark.parametrize(("stats", "framework"), [({"epoch_num": 0}, Framework.KERAS), ({}, Framework.TENSORFLOW)])
def test_marks_of_keras_2_are_told_from_the_user_s_own(stats: dict[str, int], framework: Framework) -> None:
    """Both are marks of the program to whoever captures it."""
    space = SpaceBuilder()
    main = space.plane("/host:CPU").line("python")
    for step in range(6):
        main.event("train", step * 10 * MS, 10 * MS, step_num=step, _r=1, **stats)
        main.event("EagerExecute", step * 10 * MS + MS, 8 * MS, eager_op="__inference_train_function_1", is_func=1)
    assert find_workload(run_of(space, mode="own marks")).framework is framework
    assert find_workload(run_of(space, mode="custom loop")).framework is Framework.TENSORFLOW

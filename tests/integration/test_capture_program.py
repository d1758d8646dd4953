"""`outpace.capture`, `start`, `stop` and `step` in programs with custom loops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.programs import needs_jax, needs_tensorflow, run_on_tensorflow, run_program

LOOP = """
import json, pathlib, sys, time
import outpace, tensorflow as tf

data = iter(tf.data.Dataset.range(10**6).map(lambda i: tf.random.normal([32, 32])))

@tf.function
def train_step(batch):
    return tf.reduce_sum(batch @ batch)

def train(first, last):
    for n in range(first, last):
        with outpace.step(n):
            train_step(next(data))

def steps_of(run):
    steps = outpace.open(run).run.hosts[0].steps
    return [steps.source.value, steps.number.tolist()]

def message(action):
    try:
        action()
    except outpace.OutpaceError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"

train(0, 3)
"""


PROGRAM = (
    LOOP
    + """
found = {}
with outpace.capture("logs") as capture:
    train(3, 9)
outpace.start("logs")
train(9, 12)
second = outpace.stop().profile
found["loop"] = [steps_of(capture.run), steps_of(second)]
records = [json.load(open(next(pathlib.Path(run).glob("*.json")))) for run in (capture.run, second)]
found["durations"] = [[len(each["overhead"][key]) for key in ("before_ns", "during_ns")] for each in records]

found["stop"] = message(outpace.stop)
outpace.start("logs")
train(3, 6)
found["twice"] = message(lambda: outpace.start("logs"))
with_tf = lambda: tf.profiler.experimental.start("theirs")
try:
    with_tf()
except tf.errors.AlreadyExistsError:
    found["theirs"] = "refused"
train(6, 8)
found["steps"] = steps_of(outpace.stop().run)
with_tf()
found["busy"] = message(lambda: outpace.start("logs"))
tf.profiler.experimental.stop()
found["delay"] = message(lambda: outpace.capture("logs", delay=-1))
found["duration"] = message(lambda: outpace.capture("logs", duration=0))
found["framework"] = message(lambda: outpace.capture("logs", framework="torch"))
try:
    with outpace.capture("logs") as capture:
        train(8, 10)
        raise ValueError("of the program")
except ValueError as error:
    found["passed"] = str(error)
found["saved"] = steps_of(capture.run)

began = time.time()
with outpace.capture("logs", delay=0.3, duration=0.4) as capture:
    n = 3
    while time.time() - began < 1.5:
        train(n, n + 1)
        time.sleep(0.01)
        n += 1
numbers = steps_of(capture.run)[1]
with outpace.capture("logs", delay=60) as early:
    pass
found["timed"] = [numbers[0], numbers[-1], n, early.run, early.reason]
print(json.dumps(found))
"""
)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str], Path]:
    """What the program found, what it was told, and its folder."""
    folder = tmp_path_factory.mktemp("program")
    done = run_on_tensorflow(PROGRAM, folder)
    assert done.code == 0, done.err[-3000:]
    return json.loads(done.out), done.told, folder


@needs_tensorflow
def test_the_steps_of_a_custom_loop_are_the_marked_ones(ended: Any) -> None:
    found, told, _ = ended
    assert found["loop"] == [["marked", [3, 4, 5, 6, 7, 8]], ["marked", [9, 10, 11]]]
    assert not any("iterator" in line for line in told), "the input is read inside the steps"
    assert found["durations"] == [[3, 6], [0, 3]], "steps before a capture, and in it; none between the two"


@needs_tensorflow
def test_mistakes_are_errors_with_a_way_out_and_lose_nothing(ended: Any) -> None:
    found, _, folder = ended
    assert found["stop"].startswith("UsageError: No capture runs") and "outpace.start" in found["stop"]
    assert found["twice"].startswith("UsageError: A capture runs already") and "outpace.stop()" in found["twice"]
    assert found["theirs"] == "refused"
    assert found["steps"] == ["marked", [3, 4, 5, 6, 7]], "neither refused start has disturbed the capture"
    assert found["busy"].startswith("CaptureError: Another profiler runs")
    assert all(found[name].startswith("UsageError") for name in ("delay", "duration", "framework"))
    assert found["passed"] == "of the program"
    assert found["saved"] == ["marked", [8, 9]]
    assert len(list((folder / "theirs").glob("plugins/profile/*/*.xplane.pb"))) == 1


@needs_tensorflow
def test_delay_and_duration_bound_the_capture(ended: Any) -> None:
    first, last, count, run, reason = ended[0]["timed"]
    assert 3 < first < last < count - 10, "it began after the loop did, and ended before"
    assert run is None and "before its delay of 60 s was over" in reason


@needs_tensorflow
def test_an_iterator_that_is_advanced_outside_the_step_is_told_once_with_the_fix(tmp_path: Path) -> None:
    ended = run_on_tensorflow(
        LOOP
        + """
for n in range(20):
    batch = next(data)
    with outpace.step(n):
        train_step(batch)
""",
        tmp_path,
    )
    assert [line for line in ended.told if "outside outpace.step()" in line and "wait for input" in line] == ended.told
    assert len(ended.told) == 1
    assert "train_step(next(batches))" in ended.err


@needs_jax
def test_a_jax_loop(tmp_path: Path) -> None:
    ended = run_program(
        """
import json, sys
import jax, jax.numpy as jnp, outpace

train_step = jax.jit(lambda x: (x @ x).sum())
x = jnp.ones((64, 64))
train_step(x)
with outpace.capture("memory://jax/logs") as capture:
    for n in range(5, 11):
        with outpace.step(n):
            train_step(x).block_until_ready()
steps = outpace.open(capture.run).run.hosts[0].steps
print(json.dumps([capture.run, steps.source.value, steps.number.tolist()]))
""",
        tmp_path,
        jax=True,
    )
    assert ended.code == 0, ended.err[-3000:]
    run, source, numbers = json.loads(ended.out)
    assert run.startswith("memory://") and source == "marked" and numbers == list(range(5, 11))


def test_without_a_framework_the_error_says_what_to_do(tmp_path: Path) -> None:
    ended = run_program('import outpace\nwith outpace.capture("logs"):\n    pass\n', tmp_path)
    assert ended.code == 1
    assert "neither TensorFlow nor JAX is imported. Import the framework before the capture starts." in ended.err
    assert not (tmp_path / "logs").exists()
    ended = run_program('import outpace\noutpace.start("logs", framework="jax")\n', tmp_path)
    assert "jax is not imported" in ended.err


def test_importing_outpace_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    ended = run_program(
        """
import sys
import outpace
outpace.step, outpace.start, outpace.capture("logs")
print({"numpy", "tensorflow", "jax", "fsspec", "rich", "typer"} & set(sys.modules))
""",
        tmp_path,
    )
    assert ended.out == "set()\n", ended.err

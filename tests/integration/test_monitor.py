"""The monitor in real trainings: a slow data pipeline, another profiler, a failing fit."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import outpace

pytestmark = pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")

START = """
import os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, tensorflow as tf, keras
from outpace.monitor import Monitor
logdir = sys.argv[1]
read = 0
def element(number):
    global read
    read += 1
    time.sleep(0.03 if read > slow_from else 0.004)
    return number
def dataset(count):
    x = tf.random.normal((32, 20))
    steps = tf.data.Dataset.range(count).map(lambda n: tf.ensure_shape(tf.py_function(element, [n], tf.int64), []))
    options = tf.data.Options()
    optimization = options.experimental_optimization  # without a parallel map and prefetch, steps wait for the whole sleep of their elements
    optimization.apply_default_optimizations = optimization.inject_prefetch = False
    return steps.map(lambda n: (x + tf.cast(n, tf.float32) * 0, x[:, :1])).with_options(options)
def network(**options):
    model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(10), keras.layers.Dense(1)])
    model.compile("sgd", "mse", **options)
    return model
"""

KERAS = """
slow_from = 520
model = network()
x, y = np.zeros((256, 20), "float32"), np.zeros((256, 1), "float32")
monitor = Monitor(logdir, every=0.5, cooldown=600, ratio=4)  # steps become 7 times as long, and 2 where the machine stops for a while
model.fit(dataset(165), epochs=4, validation_data=(x, y), verbose=0, callbacks=[monitor])
found = {}
for item in tf.data.TFRecordDataset(tf.io.gfile.glob(logdir + "/outpace-monitor/*.tfevents.*")):  # checks the sums
    event = tf.compat.v1.Event.FromString(item.numpy())
    for value in event.summary.value:
        found.setdefault(value.tag, []).append(event.step)
import json
with open(logdir + "/scalars.json", "w") as file:
    json.dump(found, file)
"""

MORE_KERAS = """
slow_from = 10**9
class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise ValueError("the user's own")
model = network(steps_per_execution=5)
monitor = Monitor(logdir + "/execution", every_steps=10, warmup=2)
model.fit(dataset(120), verbose=0, callbacks=[monitor])
eager = network(run_eagerly=True)
eager.fit(dataset(30), verbose=0, callbacks=[Monitor(logdir + "/eager", warmup=2)])
late = network()
late.fit(dataset(5), verbose=0)
late.fit(dataset(30), verbose=0, callbacks=[Monitor(logdir + "/late", warmup=2)])
again = Monitor(logdir + "/again", warmup=2)
try:
    model.fit(dataset(20), verbose=0, callbacks=[again, Stop()])
except ValueError as error:
    print(error)
full = network()
full.fit(np.zeros((64, 20), "float32"), np.zeros((64, 1), "float32"), batch_size=64, epochs=20, verbose=0, callbacks=[again])
"""

LOOP = """
slow_from = 520
weights = tf.Variable(tf.zeros((20, 1)))
@tf.function
def train_step(x, y):
    weights.assign_sub(0.01 * tf.matmul(x, tf.matmul(x, weights) - y, transpose_a=True))
tf.profiler.experimental.start(logdir + "/own")
with Monitor(logdir, every=0.5, ratio=1.4) as monitor:
    for number, batch in enumerate(monitor.input(dataset(700))):
        if number == 640:
            tf.profiler.experimental.stop(save=False)
            monitor._core._next_try = 0  # not to wait for the 5 s between two tries
            monitor._core._due = 0
        with monitor.step():
            train_step(*batch)
"""


def run(script: str, logdir: Path) -> list[str]:
    """What a script says on stderr about the monitor; its output must stay its own."""
    code = START + script + "\nsys.stdout.flush()\nmonitor.close()\nos._exit(0)  # a generator pipeline may hang at the end\n"
    command = [sys.executable, "-c", code, str(logdir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in done.stderr.splitlines() if line.startswith("outpace:")]


def events(logdir: Path, kind: str) -> list[dict[str, Any]]:
    (file,) = (logdir / "outpace-monitor").glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["event"] == kind]


def test_keras_fit_that_slows_down(tmp_path: Path) -> None:
    said = run(KERAS, tmp_path)
    (slow,), (capture,), (end,) = (events(tmp_path, kind) for kind in ("slowdown", "capture", "end"))
    assert 500 < slow["since"] < 560
    assert slow["now_ms"] > 1.5 * slow["before_ms"]
    assert (end["steps"], end["slowdowns"], end["captures"], capture["steps"]) == (660, 1, 1, 10)
    assert len(said) == 2
    slower = r"outpace: monitor: steps take [\d.]+ ms instead of [\d.]+ ms since step \d+; captured 10 steps in /"
    assert re.match(slower, said[0])
    assert re.match(r"outpace: monitor: 660 steps, .* of it waiting for input, 1 slowdown, 1 capture; details in /", said[1])
    intervals = events(tmp_path, "interval")
    for line in intervals:  # the pipeline's sleep, and no more than the time that there was
        assert 4 <= line["input_wait_ms"] <= 1e3 / line["steps_per_s"] + 2
        assert line["examples_per_s"] == pytest.approx(32 * line["steps_per_s"], rel=0.01)
    scalars = json.loads((tmp_path / "scalars.json").read_text(encoding="utf-8"))
    assert scalars["step_ms/p95"] == [line["step"] for line in intervals]
    steps = outpace.open(tmp_path).run.hosts[0].steps
    assert steps.source.value == "marked"
    assert len(steps) == 10


@pytest.mark.verify
def test_other_ways_to_fit(tmp_path: Path) -> None:
    run(MORE_KERAS, tmp_path)
    (end,) = events(tmp_path / "execution", "end")
    assert (end["steps"], end["timed_steps"]) == (120, 5 * (24 - 1 - 2))  # without the warm-up and an epoch's last
    assert 4 <= end["step_ms"]["p50"] < 200  # the sleep of an element at least; however busy the machine is
    assert 0.02 < end["input_share"] <= 1
    assert 4 <= events(tmp_path / "eager", "interval")[0]["input_wait_ms"] < 200
    assert "input_wait_ms" not in events(tmp_path / "late", "interval")[0]
    assert "compiled before" in events(tmp_path / "late", "note")[0]["text"]
    ends = events(tmp_path / "again", "end")
    assert [line["steps"] for line in ends] == [20]  # epochs of one batch; the step that failed is none


@pytest.mark.verify
def test_a_loop_beside_another_profiler(tmp_path: Path) -> None:
    said = run(LOOP, tmp_path)
    expected = ("another profiler", "captured 10 steps", "700 steps")
    assert all(re.search(text, line) for text, line in zip(expected, said, strict=True)), said
    assert len(events(tmp_path, "slowdown")) == len(events(tmp_path, "capture")) == 1
    for line in events(tmp_path, "interval"):
        assert 4 <= line["input_wait_ms"] < line["step_ms"]["mean"]
        assert line["input_share"] == pytest.approx(line["input_wait_ms"] / line["step_ms"]["mean"], rel=0.05)
    assert not (tmp_path / "own").exists()

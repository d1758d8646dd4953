"""A script that retraces: the argument that changed and the function's line are named."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path

import pytest

from outpace import api
from outpace.capture import CaptureOptions, run_script

SCRIPT = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

w = tf.Variable(tf.zeros((8, 2)))

@tf.function
def step(x, rate):
    w.assign_sub(rate * tf.ones_like(w))
    return tf.reduce_mean(x @ w)

for i, x in enumerate(tf.data.Dataset.from_tensors(tf.ones((4, 8))).repeat().take(30)):
    step(x, 0.5 ** i)
"""


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")
def test_the_argument_that_retraces_is_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    result = run_script(str(script), [], CaptureOptions(logdir=str(tmp_path / "logs"), warmup=4, steps=5))
    assert result.run is not None, result.reason
    page = api.open(result.run).functions()
    rows = [row for row in page.table("traces").records() if row["function"] == "step"]
    assert len(rows) >= 5
    assert {row["kinds"] for row in rows} == {"python value"}
    assert all(row["source"] == "train.py:8" and row["cause"].startswith("rate: ") for row in rows)
    finding = next(f for f in page.findings if f.id == "expensive_tf_function")
    assert finding.location == "train.py:8"


EVALUATES = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

w = tf.Variable(tf.zeros((8, 2)))
held_out = tf.data.Dataset.from_tensors(tf.ones((4, 8))).repeat().take(6)

@tf.function
def update(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - 1.0) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss

@tf.function
def evaluate(x):
    return tf.reduce_mean((x @ w - 1.0) ** 2)

for x in tf.data.Dataset.from_tensors(tf.ones((4, 8))).repeat().take(100):
    update(x)
    sum(float(evaluate(v)) for v in held_out)
"""


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")
def test_a_step_that_evaluates_is_the_one_that_trains(tmp_path: Path) -> None:
    """The evaluation's function is called six times as often, and is through the warm-up first."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(EVALUATES))
    result = run_script(str(script), [], CaptureOptions(logdir=str(tmp_path / "logs"), warmup=4, steps=5))
    assert result.run is not None, result.reason
    run = api.open(result.run).run
    assert result.record is not None and result.record.window.first_step == 4
    assert len(run.hosts[0].steps) == 5
    calls = run.hosts[0].trace.find_rows_by_name(lambda name: name == "evaluate")
    assert len(calls) >= 4 * 6

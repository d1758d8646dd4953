"""`outpace tune` on loops that the user wrote. A speed is asked of an eager step alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.integration.programs import needs_tensorflow, run_tune

pytestmark = needs_tensorflow

HEAD = """
import pathlib
import numpy as np, keras, tensorflow as tf

keras.utils.set_random_seed(7)
x = np.random.rand(640, 6).astype("float32")
y = (x[:, :3].argmax(1)).astype("int32")

def scale(a, b):
    return a * 2.0, b

data = tf.data.Dataset.from_tensor_slices((x, y))
data = data.shuffle(640)
data = data.map(scale)
data = data.batch(16)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(3)])
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam()
checkpoint = tf.train.Checkpoint(model=model)
"""
STEP = """
def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = loss_fn(b, model(a, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss
"""
LOOP = """
for epoch in range(100_000):
    for number, (a, b) in enumerate(data):
        loss = train_step(a, b)
        if number % 20 == 19:
            print("loss", float(loss))
            checkpoint.save("saved/model")
            with open("log.csv", "a") as file:
                file.write(f"{number},{float(loss)}\\n")
pathlib.Path("trained").write_text("over")
"""
KIND = 'print("the step is a graph:", hasattr(train_step, "python_function"))\n'


@pytest.mark.verify
def test_an_eager_step_is_raced_as_a_graph_and_nothing_of_the_users_is_written(tmp_path: Path) -> None:
    done = run_tune(tmp_path, HEAD + STEP + LOOP, "--budget", "60s", "--json", "--patch", "fast.patch")
    document = json.loads(done.out[done.out.index("{") :])  # behind what its first steps print
    assert "tuning the loop at train.py:" in done.err
    rows = document["tools"]["tune"]["tables"]["tried"]["rows"]
    tried = next(row for row in rows if row[0] == "tf.function")
    assert tried[1] not in ("unsafe", "failed", "not applicable"), tried
    assert re.search(r"Racing [^\n]*tf\.function[^\n]* against as it is", done.err), done.err[-3000:]
    assert tried[2] is None or tried[2] > 1.5, tried  # None: a busy machine, and not one round in so small a budget
    assert (tmp_path / "fast.patch").exists() == ("Speed-up" in document["headline"])
    if tried[1] == "kept":
        assert "+@tf.function" in (tmp_path / "fast.patch").read_text()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "fast.patch") == ["train.py"]
    assert "did not write: log.csv, saved/checkpoint, saved/model-1." in done.err, done.err[-3000:]


@pytest.mark.verify
def test_a_compiled_step_gets_limits_and_xla_is_tried(tmp_path: Path) -> None:
    done = run_tune(tmp_path, HEAD + "@tf.function" + STEP + LOOP, "--budget", "40s", "--json")
    tried = done.out.lower()
    assert "xla" in tried and "model alone" in tried and "the step is a graph already" in tried


@pytest.mark.verify
def test_a_step_whose_state_a_graph_would_freeze_is_left_alone(tmp_path: Path) -> None:
    counting = STEP.replace("    return loss", "    global steps\n    steps += 1\n    return loss")
    done = run_tune(tmp_path, HEAD + "steps = 0\n" + counting + LOOP, "--budget", "40s", "--json")
    assert "assigns steps outside of itself" in done.out


def test_a_loop_that_ends_is_run_again(tmp_path: Path) -> None:
    """What saves the model stands behind it; a data set that is read before is not the loop's."""
    counted = HEAD.replace("data = data.batch", "examples = sum(1 for _ in data)\ndata = data.batch")
    loop = "iterator = iter(data.repeat())\nfor number in range(30):\n    a, b = next(iterator)\n    train_step(a, b)\n"
    loop += 'pathlib.Path("trained").write_text("over")\n'
    done = run_tune(tmp_path, counted + "@tf.function" + STEP + loop, "--budget", "6s", "--only-limits")
    assert "tuning the loop at train.py:29" in done.err and not (tmp_path / "trained").exists()
    assert "cannot be run alone" in done.words and "Input alone" not in done.out, done.out  # a range is no input


@pytest.mark.verify
@pytest.mark.parametrize(("then", "budget"), [("apply", "60s"), ("continue", "30s")])
def test_a_loop_trains_on_with_what_is_kept_or_unchanged(then: str, budget: str, tmp_path: Path) -> None:
    done = run_tune(tmp_path, HEAD + STEP + LOOP.replace("100_000", "1") + KIND, "--budget", budget, "--then", then)
    assert (tmp_path / "trained").exists() and "loss" in done.out and (tmp_path / "log.csv").exists(), done.err[-3000:]
    kept = then == "apply" and "with: tf.function" in done.out
    assert done.out.splitlines()[-1] == f"the step is a graph: {kept}", done.out[-3000:]

"""`outpace tune` on loops whose steps call Keras models eagerly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.programs import environment, needs_tensorflow

pytestmark = needs_tensorflow

SCRIPT = """
import numpy as np, tensorflow as tf, keras

keras.utils.set_random_seed(0)

class Agent:
    def __init__(self):
        dense = [keras.layers.Dense(64, activation="relu") for _ in range(12)]
        self.policy = keras.Sequential([keras.Input((4,)), *dense, keras.layers.BatchNormalization(), keras.layers.Dense(2)])
        self.memory = []

agent = Agent()
critic = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.01)
optimizer.build(critic.trainable_variables)

@tf.function
def update(states):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(critic(states, training=True) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables))
    return loss

state = np.ones((1, 4), "float32")
while True:
    action = int(np.argmax(agent.policy(state, training=True)[0]))
    agent.memory.append(action)
    state = np.roll(state, action)
    update(tf.repeat(tf.constant(state), 8, axis=0))
"""
COUNTS = """
class Counting(keras.Model):
    calls = 0

    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(2)

    def call(self, x, training=None):
        self.calls += 1
        return self.inner(x)

"""
DROPS = (
    COUNTS.replace("        self.calls += 1\n", "")
    .replace(", training=None", "")
    .replace("keras.layers.Dense(2)", "keras.layers.Dropout(0.5)")
)
HEAD = "agent = Agent()\n"
REFUSED = {
    "counts": (COUNTS + HEAD + "agent.policy = Counting()\n", "Counting.call assigns self.calls"),
    "drops": (DROPS + HEAD + "agent.policy = Counting()\n", "Counting.call takes no `training`"),
}


def run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "outpace", "tune", *options, "train.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False, env=environment())


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_a_graph_would_change_are_left_eager(tmp_path: Path, name: str) -> None:
    head, why = REFUSED[name]
    done = run(tmp_path, SCRIPT.replace(HEAD, head), "--dry-run")
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"not applicable: models as graphs: {why}" in done.stdout, done.stdout


@pytest.mark.verify
def test_a_model_that_every_step_calls_eagerly_is_raced_as_a_graph_and_written(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT, "--budget", "40s", "--patch", "fast.patch")
    assert done.returncode == 0, done.stderr[-3000:]
    said = " ".join(done.stdout.split())
    assert "models as graphs: Every step calls agent.policy (train.py:26) eagerly" in said, said
    assert "+agent.policy.call = tf.function(agent.policy.call)\n while True:" in (tmp_path / "fast.patch").read_text(), said
